package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/release"
)

// lifetimeEnded is the reason of a release.
const lifetimeEnded = "its lifetime has ended"

// listExpired adds the claims whose lifetime has ended, and returns when the next one
// ends.
func (s *Scheduler) listExpired(ctx context.Context) (time.Time, error) {
	now := time.Now()
	next, err := s.store.NextExpiry(ctx, time.Time{})
	if err != nil || next.IsZero() || next.After(now) {
		return next, err
	}
	expired, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.Active}, ExpiresBefore: now})
	if err != nil {
		return next, fmt.Errorf("list the claims whose lifetime has ended: %w", err)
	}
	for _, c := range expired {
		s.lifetimes.add(c)
	}
	return s.store.NextExpiry(ctx, now)
}

// releaseExpired releases a claim, unless it was extended: that has an event.
func (s *Scheduler) releaseExpired(ctx context.Context, id string) (time.Time, error) {
	now := time.Now()
	expired := func(c claim.Claim) bool {
		return c.State == claim.Active && c.ExpiresAt != nil && !c.ExpiresAt.After(now)
	}
	c, err := s.store.Claim(ctx, id)
	if err == nil && expired(c) {
		_, err = s.releases.Release(ctx, id, release.Request{Reason: lifetimeEnded, OnlyIf: expired})
	}
	return time.Time{}, s.releaseResult(ctx, id, err)
}
