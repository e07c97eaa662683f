package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/release"
)

// lifetimeInterval is the time between two lists of the claims whose lifetime has
// ended. They are found by an index, also those that another server made active.
const lifetimeInterval = time.Second

// lifetimeEnded is the reason of a release.
const lifetimeEnded = "its lifetime has ended"

// listExpired lists the claims whose lifetime has ended.
func (s *Scheduler) listExpired(ctx context.Context) (time.Time, error) {
	now := time.Now()
	expired, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.Active}, ExpiresBefore: now})
	if err != nil {
		return now.Add(lifetimeInterval), fmt.Errorf("list the claims whose lifetime has ended: %w", err)
	}
	for _, c := range expired {
		s.lifetimes.add(c)
	}
	return now.Add(lifetimeInterval), nil
}

// releaseExpired releases a claim, unless it was extended.
func (s *Scheduler) releaseExpired(ctx context.Context, id string) error {
	now := time.Now()
	expired := func(c claim.Claim) bool {
		return c.State == claim.Active && c.ExpiresAt != nil && !c.ExpiresAt.After(now)
	}
	c, err := s.store.Claim(ctx, id)
	if err == nil && expired(c) {
		_, err = s.releases.Release(ctx, id, release.Request{Reason: lifetimeEnded, OnlyIf: expired})
	}
	return s.releaseResult(ctx, id, err)
}
