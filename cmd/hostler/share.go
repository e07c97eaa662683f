package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/store"
)

// leading is the name of the lease of whoever keeps the pools.
const leading = "pools"

// share is a server's life among others on one database, until ctx ends: it
// says that it is alive, hears what the others do, and leads when nobody else
// does. A server that was taken over from, or that another one has begun to
// lead for, ends: it can no longer know what is its own to do, and starts
// again with nothing in memory.
func (s *server) share(ctx context.Context, c serveConfig) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.hear(ctx) })
	lead := make(chan struct{}) // closed when this server leads
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-lead:
			s.log.Info("this server keeps the pools now")
			return s.lead(ctx, c)
		}
	})
	g.Go(func() error { return s.renew(ctx, lead) })
	err := g.Wait()
	// The next one need not wait until this one is thought to be dead.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.LeaseTime)
	defer cancel()
	return errors.Join(err, s.db.Resign(ending, leading))
}

// errReplaced ends a server that is no longer what it thought it was.
var errReplaced = errors.New("another server keeps the pools now")

// renew says that this server is alive, and asks to lead, again and again.
func (s *server) renew(ctx context.Context, lead chan struct{}) error {
	leads := false
	for {
		err := s.db.Renew(ctx)
		if errors.Is(err, store.ErrFenced) {
			return fmt.Errorf("share the database: %w", err)
		}
		if err == nil {
			leads, err = s.keepLeading(ctx, leads, lead)
		}
		if errors.Is(err, errReplaced) || errors.Is(err, store.ErrFenced) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("this server could not say that it is alive, and tries again", "error", err)
		}
		if flow.Pause(ctx, store.LeaseTime/3) != nil {
			return nil
		}
	}
}

// keepLeading asks to lead, and who leads takes over from the dead.
func (s *server) keepLeading(ctx context.Context, led bool, lead chan struct{}) (bool, error) {
	_, leads, err := s.db.Lead(ctx, leading)
	switch {
	case err != nil:
		return led, err
	case led && !leads:
		return false, errReplaced
	case leads && !led:
		close(lead)
	}
	if leads {
		err = s.takeOver(ctx)
	}
	return leads, err
}

// takeOver finishes or undoes what servers that have died were doing.
func (s *server) takeOver(ctx context.Context) error {
	dead, err := s.db.Expired(ctx)
	if err != nil {
		return err
	}
	for _, replica := range dead {
		fenced, err := s.db.TakeOver(ctx, replica.ID)
		if errors.Is(err, store.ErrAlive) || errors.Is(err, store.ErrNoReplica) {
			continue
		}
		if err != nil {
			return err
		}
		s.log.Warn("taking over from a server that was not heard of", "server", replica.ID, "host", replica.Host)
		if err := s.recover(ctx, replica.ID); err != nil {
			return fmt.Errorf("take over from server %s: %w", replica.ID, err)
		}
		if err := s.db.Dismiss(ctx, fenced); err != nil && !errors.Is(err, store.ErrNoReplica) {
			return err
		}
	}
	return nil
}

// heard is how many events are looked at in one go.
const heard = 500

// hear wakes those who wait here when something has changed anywhere: claims
// that wait for a container, and the loops of whoever leads.
func (s *server) hear(ctx context.Context) error {
	after, err := s.db.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("find the end of the log: %w", err)
	}
	for {
		changed := s.db.Changed()
		page, err := s.db.Events(ctx, activity.Filter{}, after, heard)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("what other servers do was not heard of, and is asked for again", "error", err)
			if flow.Pause(ctx, time.Second) != nil {
				return nil
			}
			continue
		}
		touched := map[string]bool{}
		for _, e := range page.Items {
			after = e.Seq
			touched[e.Workload] = true
		}
		for id := range touched {
			if id != "" {
				s.pools.Wake(id)
			}
		}
		if len(page.Items) == heard {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
