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

// Recover takes up what an earlier server left half made. It is called once,
// before Run. A claim whose hooks have begun is for Run to finish: all that
// comes before them is done, and what they have done is on record. Any other
// fails with its container: nobody waits for its answer, and nobody knows how
// far its container was made ready.
func (s *Service) Recover(ctx context.Context) error {
	pending, err := s.store.Claims(ctx, Filter{States: []State{Pending}})
	if err != nil {
		return fmt.Errorf("list the pending claims: %w", err)
	}
	for _, c := range pending {
		begun, err := s.runner.Begun(ctx, hooks.PostClaim, subject(c))
		if err != nil {
			return err
		}
		if begun {
			work, f, _ := s.enter(ctx, key{c.Workload, c.Tenant}, c.ID)
			s.left = append(s.left, func(ctx context.Context) {
				defer s.land(f, key{c.Workload, c.Tenant})
				defer context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })()
				f.c, f.err = s.finish(work, c)
			})
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

// Run finishes the claims that Recover has taken up, and returns when each is
// active or has failed. Who asks for one meanwhile waits for it.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, finish := range s.left {
		g.Go(func() error { finish(ctx); return nil })
	}
	s.left = nil
	return g.Wait()
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
