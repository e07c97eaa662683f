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

// leaderLease is the name of the lease of whoever keeps the pools.
const leaderLease = "pools"

// heartbeatInterval is how often a server says that it is alive, and looks for the dead.
const heartbeatInterval = store.LeaseTime / 3

// runShared is a server's life among others on one database, until ctx ends: it
// says that it is alive, hears what the others do, and leads when nobody else
// does. A server that another one has begun to lead for ends: it can no longer
// know what is its own to do, and starts again with nothing in memory.
func (s *server) runShared(ctx context.Context, c serveConfig) error {
	if c.workloads != "" { // it is to be missed at once, and not when this server comes to lead
		if _, err := os.ReadDir(c.workloads); err != nil {
			return fmt.Errorf("read the directory of workloads: %w", err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	var work sync.WaitGroup // of whoever leads, or may come to
	work.Add(2)
	g.Go(func() error { defer work.Done(); return s.followEvents(ctx) })
	elected := make(chan struct{}) // closed when this server leads
	g.Go(func() error {
		defer work.Done()
		select {
		case <-ctx.Done():
			return nil
		case <-elected:
			return s.runAsLeader(ctx, c)
		}
	})
	// It keeps the lead until it has ended what it began as the leader: with
	// another one it would remove the same containers, and run their hooks.
	renewCtx, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	g.Go(func() error { return s.renewLease(renewCtx, func() bool { return ctx.Err() != nil }, elected) })
	work.Wait()
	stopRenewing()
	err := g.Wait()
	// The next one need not wait until this one is thought to be dead.
	resignCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.LeaseTime)
	defer cancel()
	return errors.Join(err, s.db.Resign(resignCtx, leaderLease))
}

// renewWhileStopping goes on to say that this server is alive while it stops, until the
// function that it returns is called: what it has begun would be taken over
// before it has ended.
func (s *server) renewWhileStopping() (stop func()) {
	if !s.db.IsShared() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // it ends when it is told to
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

// deregister is the last that a server does: what it leaves is taken over at once,
// and so is the lead, if it was not given up for something did not end.
func (s *server) deregister(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.LeaseTime)
	defer cancel()
	return errors.Join(s.db.Resign(ctx, leaderLease), s.db.Deregister(ctx))
}

// errLostLeadership ends a server that is no longer what it thought it was.
var errLostLeadership = errors.New("another server keeps the pools now")

// renewLease says that this server is alive, and asks to lead, again and again until
// ctx ends. When it is stopping, it keeps the lead and does not come to it.
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
			s.log.Warn("this server could not say that it is alive, and tries again", "error", err)
		}
		if flow.Sleep(ctx, heartbeatInterval) != nil {
			return nil
		}
	}
}

// exitFenced ends a server that was taken over from, as if it were killed. Whatever it
// did on its way out, undoing what is half made above all, it would do to what
// is another's: it would cut off hooks that the other waits for.
func (s *server) exitFenced(err error) {
	s.log.Error("this server ends at once, and has to be started again", "error", err)
	os.Exit(exitFailure)
}

// campaign asks to lead, and says whether this server does.
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

// runAsLeader keeps the pools from now on. First of all it takes over from those
// who have died, and so from who led before: as long as that one is not fenced,
// both would destroy the same containers, and run their hooks.
func (s *server) runAsLeader(ctx context.Context, c serveConfig) error {
	for s.takeOverExpired(ctx, true) != nil {
		if flow.Sleep(ctx, time.Second) != nil {
			return nil
		}
	}
	s.log.Info("this server keeps the pools now")
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.runLeaderLoops(ctx, c) })
	g.Go(func() error {
		for flow.Sleep(ctx, heartbeatInterval) == nil {
			_ = s.takeOverExpired(ctx, false) // it has said what is wrong, and tries again
		}
		return nil
	})
	return g.Wait()
}

// takeOverExpired takes over from the servers that have died, and at first also what is
// nobody's. What goes wrong it logs, and returns.
func (s *server) takeOverExpired(ctx context.Context, first bool) error {
	if !first && s.lease.inGrace() {
		return nil
	}
	err := s.takeOver(ctx)
	if err == nil && first {
		err = s.recoverWork(ctx, "")
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("what other servers have left could not be taken over, and is tried again", "error", err)
	}
	return err
}

// errStale keeps a server that was silent itself from burying others.
var errStale = errors.New("this server was not heard of either for a while")

// takeOver finishes or undoes what servers that have died were doing.
func (s *server) takeOver(ctx context.Context) error {
	expired, err := s.db.Expired(ctx)
	if err != nil {
		return err
	}
	// The answer may have been long in coming: after an outage of the database
	// every server has been silent, this one too.
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
		s.log.Warn("taking over from a server that has ended or was not heard of", "server", replica.ID, "host", replica.Host)
		if err := s.recoverWork(ctx, replica.ID); err != nil {
			return fmt.Errorf("take over from server %s: %w", replica.ID, err)
		}
		if err := s.db.RemoveReplica(ctx, fenced); err != nil && !errors.Is(err, store.ErrReplicaNotFound) {
			return err
		}
	}
	return nil
}
