package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
)

// ErrNoLifetime is returned when a claim without a lifetime is to be extended.
var ErrNoLifetime = errors.New("the claim has no lifetime: it lasts until it is released")

// Extend moves the end of an active claim's lifetime. Each call moves it again. The
// claim then ends at most MaxLifetime from now. Errors: *RequestError,
// ErrClaimNotFound, ErrNotActive, ErrNoLifetime.
func (s *Service) Extend(ctx context.Context, id string, by time.Duration) (Claim, error) {
	if by < MinLifetime || by > MaxLifetime {
		return Claim{}, &RequestError{"by", fmt.Sprintf("%s is not between %s and %s", by, MinLifetime, MaxLifetime)}
	}
	latest := time.Now().Add(MaxLifetime)
	c, err := s.store.UpdateClaim(ctx, extension(id, by, latest))
	if !errors.Is(err, pool.ErrConflict) {
		return c, err
	}
	c, err = s.store.Claim(ctx, id)
	switch {
	case err != nil:
		return Claim{}, err
	case c.State != Active:
		return Claim{}, fmt.Errorf("%w: it is %s", ErrNotActive, c.State)
	case c.ExpiresAt == nil:
		return Claim{}, ErrNoLifetime
	}
	return Claim{}, &RequestError{"by", fmt.Sprintf("the claim would last until %s, more than %s from now",
		c.ExpiresAt.Add(by).UTC().Format(time.RFC3339), MaxLifetime)}
}

// extension returns the transition that extends a claim.
func extension(id string, by time.Duration, latest time.Time) Transition {
	events := []activity.Event{{Type: activity.ClaimExtended, Message: "claim is extended by " + by.String()}}
	m := Note(id, func(c *Claim) {
		at := c.ExpiresAt.Add(by)
		c.ExpiresAt = &at
		events[0].Data = activity.Data(activity.ClaimExtendedData{ByMS: by.Milliseconds(), ExpiresAt: at})
	}, Active)
	m.If = func(c Claim) bool { return c.ExpiresAt != nil && !c.ExpiresAt.Add(by).After(latest) }
	m.Events = events
	return m
}
