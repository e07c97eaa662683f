package release

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// TakeOver makes the releases among the claims with these ids, which a server
// that is no more has begun, this one's to finish, and ends those of the hook
// runs that it left running which no flow takes up again. It is called after
// the claims and the pools have recovered: what they gave up is on record then.
func (s *Service) TakeOver(ctx context.Context, claims, runs []string) error {
	for _, id := range claims {
		_, err := s.store.MoveClaim(ctx, claim.Move{ID: id, From: []claim.State{claim.Releasing}, To: claim.Releasing})
		if err != nil && !errors.Is(err, pool.ErrMoved) {
			return fmt.Errorf("take the release of claim %s over: %w", id, err)
		}
	}
	s.again()
	return s.runner.Abandon(ctx, runs, s.goesOn)
}

// goesOn says whether the flow of a hook run is gone on with, which takes the
// run up.
func (s *Service) goesOn(ctx context.Context, r hooks.Run) (bool, error) {
	switch r.Point {
	case hooks.PostClaim, hooks.PreRelease:
		c, err := s.store.Claim(ctx, r.Claim)
		if errors.Is(err, claim.ErrNoClaim) {
			return false, nil
		}
		during := map[hooks.Point]claim.State{hooks.PostClaim: claim.Pending, hooks.PreRelease: claim.Releasing}
		return c.State == during[r.Point], err
	case hooks.PreDestroy:
		c, err := s.pools.Container(ctx, r.Container)
		if errors.Is(err, pool.ErrNoContainer) {
			return false, nil
		}
		return c.State == pool.Destroying, err
	}
	return false, nil // a container that was being made is given up
}

// Recover finishes the releases that this server took over, or that storage or
// the engine interrupted. It tries each once and joins what goes wrong.
func (s *Service) Recover(ctx context.Context) error {
	left, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.Releasing}})
	if err != nil {
		return fmt.Errorf("list the releases under way: %w", err)
	}
	var g errgroup.Group
	g.SetLimit(parallelReleases)
	errs := make([]error, len(left))
	for i, c := range left {
		if ctx.Err() != nil {
			break
		}
		if s.claims.Elsewhere(c) {
			continue // another server is at it
		}
		g.Go(func() error {
			if _, err := s.Release(ctx, c.ID, Request{Reason: c.Reason, Discard: c.Discard}); err != nil {
				errs[i] = fmt.Errorf("finish the release of claim %s: %w", c.ID, err)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	return errors.Join(errs...)
}
