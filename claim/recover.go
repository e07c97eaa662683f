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
		c, err := s.adopt(ctx, id)
		if errors.Is(err, pool.ErrMoved) {
			continue
		}
		if err != nil {
			return fmt.Errorf("take claim %s over: %w", id, err)
		}
		begun, err := s.runner.Begun(ctx, hooks.PostClaim, subject(c))
		if err != nil {
			return err
		}
		if begun {
			work, f, _ := s.enter(ctx, key{c.Workload, c.Tenant}, c.ID)
			s.left <- func(ctx context.Context) {
				defer s.land(f, key{c.Workload, c.Tenant})
				defer context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })()
				f.c, f.err = s.finish(work, c)
			}
			continue
		}
		_, err = s.store.MoveClaim(ctx, failure(c.ID, stoppedReason, nil))
		if err != nil && !errors.Is(err, pool.ErrMoved) {
			return fmt.Errorf("fail claim %s: %w", c.ID, err)
		}
	}
	return nil
}

// stoppedReason is why a claim failed that nobody works on any more.
const stoppedReason = "the server stopped while the claim was being made"

// adopt makes a pending claim this server's to work on. Others in the list are
// releases: they are adopted by whoever finishes those.
func (s *Service) adopt(ctx context.Context, id string) (Claim, error) {
	return s.store.MoveClaim(ctx, Move{ID: id, From: []State{Pending}, To: Pending})
}

// Run finishes the claims that Recover takes up, until ctx ends, and returns
// when each is active or has failed. Who asks for one meanwhile waits for it.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // the functions return nil
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
		claim: c, timings: flow.Timings{},
	}
	err := m.find(work)
	if err == nil {
		m.current = m.w
		err = m.activate(work)
	}
	if err != nil {
		s.log.Warn("a claim of the last server could not be finished", "claim", c.ID, "error", err)
		return m.fail(work, err)
	}
	return m.claim, nil
}
