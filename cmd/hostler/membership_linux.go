package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/store"
)

// leaderLease is the name of the lease that the leader holds.
const leaderLease = "pools"

// heartbeatInterval is how often a server renews its lease and the leader checks
// for expired servers.
const heartbeatInterval = store.LeaseTime / 3

// runShared runs a server that shares its database with others, until ctx ends:
// it renews its lease, follows the events of the others, and becomes the leader
// when there is none. A leader that another server has replaced returns an
// error: its memory is outdated, so the process has to be started again.
func (s *server) runShared(ctx context.Context, c serveConfig) error {
	if c.workloads != "" { // a missing directory is an error at once, not only when this server leads
		if _, err := os.ReadDir(c.workloads); err != nil {
			return fmt.Errorf("read the directory of workloads: %w", err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	var work sync.WaitGroup // the loops that end before the lease does
	work.Add(2)
	g.Go(func() error { defer work.Done(); return s.followEvents(ctx) })
	elected := make(chan struct{}) // closed when this server becomes leader
	g.Go(func() error {
		defer work.Done()
		select {
		case <-ctx.Done():
			return nil
		case <-elected:
			return s.runAsLeader(ctx, c)
		}
	})
	// The leader keeps its lease until the work that it began as leader has
	// ended: two leaders would remove the same containers and run their hooks.
	renewCtx, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	g.Go(func() error { return s.renewLease(renewCtx, func() bool { return ctx.Err() != nil }, elected) })
	work.Wait()
	stopRenewing()
	err := g.Wait()
	// The next leader need not wait until this one's lease expires.
	resignCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.LeaseTime)
	defer cancel()
	return errors.Join(err, s.db.Resign(resignCtx, leaderLease))
}

// renewWhileStopping keeps renewing the lease while this server stops, until the
// returned function is called. Otherwise another server would take over work
// that is still running.
func (s *server) renewWhileStopping() (stop func()) {
	if !s.db.IsShared() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // it ends when stop is called, which waits for it
		defer close(done)
		for flow.Sleep(ctx, heartbeatInterval) == nil {
			startedAt := time.Now()
			if err := s.db.Renew(ctx); err == nil {
				s.lease.renewed(startedAt)
			} else if errors.Is(err, store.ErrFenced) {
				s.exitFenced(err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// deregister is the last step of a server. Its remaining work is taken over at
// once, and so is the leader's lease if it still holds it, which it does when
// something did not end before the deadline.
func (s *server) deregister(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.LeaseTime)
	defer cancel()
	return errors.Join(s.db.Resign(ctx, leaderLease), s.db.Deregister(ctx))
}

// errLostLeadership ends a server that another one has replaced as leader.
var errLostLeadership = errors.New("another server became leader")

// renewLease renews this server's lease and campaigns for leadership at every
// heartbeat, until ctx ends. A server that is stopping keeps its leadership but
// does not acquire it.
func (s *server) renewLease(ctx context.Context, stopping func() bool, elected chan struct{}) error {
	isLeader := false
	for {
		startedAt := time.Now()
		err := s.db.Renew(ctx)
		if err == nil {
			s.lease.renewed(startedAt)
			isLeader, err = s.campaign(ctx, isLeader, stopping, elected)
		}
		if errors.Is(err, store.ErrFenced) {
			s.exitFenced(err)
		}
		if errors.Is(err, errLostLeadership) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("lease renewal failed; retrying", "error", err)
		}
		if flow.Sleep(ctx, heartbeatInterval) != nil {
			return nil
		}
	}
}

// exitFenced ends the process at once, as if it were killed, because another
// server has taken over from it. Cleanup would damage the other server's work:
// for example it would kill hooks that the other server waits for.
func (s *server) exitFenced(err error) {
	s.log.Error("fenced by another server; exiting", "error", err)
	os.Exit(exitFailure)
}

// campaign tries to acquire or renew leadership, and reports whether this server
// is the leader.
func (s *server) campaign(ctx context.Context, wasLeader bool, stopping func() bool, elected chan struct{}) (bool, error) {
	if !wasLeader && (s.lease.inGrace() || stopping()) {
		return false, nil
	}
	_, isLeader, err := s.db.TryAcquireLease(ctx, leaderLease)
	switch {
	case err != nil:
		return wasLeader, err
	case wasLeader && !isLeader:
		return false, errLostLeadership
	case isLeader && !wasLeader:
		close(elected)
	}
	return isLeader, nil
}

// runAsLeader runs the leader's loops until ctx ends. It first takes over from
// expired servers, and so from the last leader: until that one is fenced, both
// would destroy the same containers and run their hooks.
func (s *server) runAsLeader(ctx context.Context, c serveConfig) error {
	for s.takeOverExpired(ctx, true) != nil {
		if flow.Sleep(ctx, time.Second) != nil {
			return nil
		}
	}
	s.log.Info("became leader")
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.runLeaderLoops(ctx, c) })
	g.Go(func() error {
		for flow.Sleep(ctx, heartbeatInterval) == nil {
			_ = s.takeOverExpired(ctx, false) // it logs the error, and the next heartbeat retries
		}
		return nil
	})
	return g.Wait()
}

// takeOverExpired takes over from expired servers, and the first time also the
// work that has no owner. It logs an error and returns it.
func (s *server) takeOverExpired(ctx context.Context, first bool) error {
	if !first && s.lease.inGrace() {
		return nil
	}
	err := s.takeOver(ctx)
	if err == nil && first {
		err = s.recoverWork(ctx, "")
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("takeover failed; retrying", "error", err)
	}
	return err
}

// errStale keeps a server whose own lease lapsed from taking over from others.
var errStale = errors.New("this server's own lease lapsed recently")

// takeOver fences expired servers, and finishes or undoes their work.
func (s *server) takeOver(ctx context.Context) error {
	expired, err := s.db.Expired(ctx)
	if err != nil {
		return err
	}
	// The query may have taken long: during an outage of the database no server
	// could renew its lease, nor could this one.
	if len(expired) > 0 && (!s.lease.isHeld() || s.lease.inGrace()) {
		return errStale
	}
	for _, replica := range expired {
		fenced, err := s.db.Fence(ctx, replica.ID)
		if errors.Is(err, store.ErrNotExpired) || errors.Is(err, store.ErrReplicaNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		s.log.Warn("taking over from expired server", "server", replica.ID, "host", replica.Host)
		if err := s.recoverWork(ctx, replica.ID); err != nil {
			return fmt.Errorf("take over from server %s: %w", replica.ID, err)
		}
		if err := s.db.RemoveReplica(ctx, fenced); err != nil && !errors.Is(err, store.ErrReplicaNotFound) {
			return err
		}
	}
	return nil
}
