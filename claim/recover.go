package claim

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
)

// Recover takes up, of the claims with these ids, what a server that is no more
// left half made. A claim whose hooks have begun is for Run to finish: all that
// comes before them is done, and what they have done is on record. Any other
// fails with its container: nobody waits for its answer, and nobody knows how
// far its container was made ready.
func (s *Service) Recover(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.takeUp(ctx, id); err != nil {
			return fmt.Errorf("take claim %s over: %w", id, err)
		}
	}
	return nil
}

// takeUp makes a pending claim this server's to work on. It does so within the
// tenant's flight: who asks for the claim here meanwhile would think that
// nobody works on it.
func (s *Service) takeUp(ctx context.Context, id string) error {
	c, err := s.store.Claim(ctx, id)
	if err != nil || c.State != Pending {
		return err // others are releases: whoever finishes those adopts them
	}
	k := key{c.Workload, c.Tenant}
	work, f, err := s.enterLast(ctx, k, id)
	if err != nil {
		return err
	}
	landed := false
	land := func() {
		f.err = &elsewhereError{c} // whoever has waited looks again
		s.land(f, k)
	}
	defer func() {
		if !landed {
			land()
		}
	}()
	c, err = s.store.MoveClaim(ctx, Move{ID: id, From: []State{Pending}, To: Pending})
	if errors.Is(err, pool.ErrMoved) {
		return nil
	}
	if err != nil {
		return err
	}
	begun, err := s.runner.Begun(ctx, hooks.PostClaim, c.Subject())
	if err != nil {
		return err
	}
	if !begun {
		_, err = s.store.MoveClaim(ctx, failure(id, stoppedReason, nil))
		if errors.Is(err, pool.ErrMoved) {
			return nil
		}
		return err
	}
	finish := func(ctx context.Context) {
		defer s.land(f, k)
		defer context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })()
		f.c, f.err = s.finish(work, c)
	}
	select {
	case s.left <- finish:
		landed = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enterLast begins a flight for k when no other is under way.
func (s *Service) enterLast(ctx context.Context, k key, id string) (context.Context, *flight, error) {
	for {
		work, f, first := s.enter(ctx, k, id)
		if first {
			return work, f, nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// stoppedReason is why a claim failed that nobody works on any more.
const stoppedReason = "the server stopped while the claim was being made"

// Run finishes the claims that Recover takes up, and ends those of this server
// that nobody makes, until ctx ends. It returns when each of the former is
// active or has failed. Who asks for one meanwhile waits for it.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // the functions return nil
	g.Go(func() error { s.sweeps(ctx); return nil })
	for {
		select {
		case <-ctx.Done():
			return nil
		case finish := <-s.left:
			g.Go(func() error { finish(ctx); return nil })
		}
	}
}

// finish goes on where the hooks of a claim were left.
func (s *Service) finish(work context.Context, c Claim) (Claim, error) {
	m := &making{
		Service: s, request: Request{Workload: c.Workload, Tenant: c.Tenant},
		claim: c, begun: true, timings: flow.Timings{},
	}
	err := m.find(work)
	if err == nil {
		m.current = m.w
		err = m.activate(work)
	}
	if err != nil {
		s.log.Warn("a claim of the last server could not be finished", "claim", c.ID, "error", err)
		c, _, err = m.fail(work, err)
		return c, err
	}
	return m.claim, nil
}
