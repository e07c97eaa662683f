package release

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// TakeOver makes this server the owner of the releases among the given claims
// of a terminated server, and ends those of its hook runs that no flow resumes.
// It is called after the claims and the pools have recovered, because their
// failed claims and containers are recorded by then.
func (s *Service) TakeOver(ctx context.Context, claims, runs []string) error {
	defer s.wake() // also after an error: a takeover has no event, and is not listed again
	for _, id := range claims {
		_, err := s.store.UpdateClaim(ctx, claim.Own(id, claim.Releasing))
		s.claims.NotifyChanged(id)
		if err != nil && !errors.Is(err, pool.ErrConflict) {
			return fmt.Errorf("take over the release of claim %s: %w", id, err)
		}
	}
	return s.runner.MarkUnknown(ctx, runs, s.willResume)
}

// willResume reports whether the flow of a hook run will resume the run.
func (s *Service) willResume(ctx context.Context, r hooks.Run) (bool, error) {
	if r.Event != "" && !r.IsTest() {
		return true, nil // package delivery does
	}
	resumed := r.Point.Rule().ResumedIn
	state := ""
	switch resumed.Record {
	case hooks.OfClaim:
		c, err := s.store.Claim(ctx, r.Claim)
		if err != nil && !errors.Is(err, claim.ErrClaimNotFound) {
			return false, err
		}
		state = string(c.State)
	case hooks.OfContainer:
		c, err := s.pools.Container(ctx, r.Container)
		if err != nil && !errors.Is(err, pool.ErrContainerNotFound) {
			return false, err
		}
		if state = string(c.State); c.IsDue() {
			state = string(pool.Destroying) // also while its claim remains
		}
	}
	return state != "" && state == resumed.State, nil
}
