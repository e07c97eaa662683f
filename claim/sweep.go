package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// The intervals of sweeps for stale claims. After a storage error the next
// sweep starts sooner.
const (
	sweepInterval      = 10 * time.Second
	sweepRetryInterval = time.Second
	sweepPageSize      = 500 // claims per page
	sweepConcurrency   = 16  // concurrent changes
)

// sweepLoop fails this server's stale pending claims until ctx ends: claims
// whose failure could not be recorded, or whose reservation reply was lost.
// Other servers do not touch them while this one lives. Memory use does not
// depend on the number of failed claims.
func (s *Service) sweepLoop(ctx context.Context) {
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	nextSweep := time.Now().Add(sweepInterval)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sweepSignal:
			// Never later than planned, even if claims fail constantly.
			if soon := time.Now().Add(sweepRetryInterval); soon.Before(nextSweep) {
				nextSweep = soon
			}
		case <-timer.C:
			err := s.sweep(ctx)
			if err != nil && !failing && ctx.Err() == nil {
				s.log.Warn("claim sweep failed; retrying", "error", err)
			}
			failing = err != nil
			nextSweep = time.Now().Add(sweepInterval)
			if failing {
				nextSweep = time.Now().Add(sweepRetryInterval)
			}
		}
		timer.Reset(time.Until(nextSweep))
	}
}

// triggerSweep schedules a sweep after sweepRetryInterval.
func (s *Service) triggerSweep() {
	select {
	case s.sweepSignal <- struct{}{}:
	default:
	}
}

// sweep fails the pending claims of this server without a call.
func (s *Service) sweep(ctx context.Context) error {
	f := Filter{States: []State{Pending}, Limit: sweepPageSize}
	for {
		page, err := s.store.Claims(ctx, f)
		if err != nil {
			return fmt.Errorf("list the pending claims: %w", err)
		}
		var g errgroup.Group
		g.SetLimit(sweepConcurrency)
		for _, c := range page {
			// The call of a claim starts before its record is added and
			// ends after it. A claim that is listed first and has no call afterwards
			// is stale.
			if !s.IsOwnedByPeer(c) && s.findCall(c.ID) == nil {
				g.Go(func() error {
					err := s.failStale(ctx, c, "its result could not be recorded")
					if errors.Is(err, runtime.ErrNewer) {
						return nil // a newer server ends it
					}
					return err
				})
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if len(page) < sweepPageSize {
			return nil
		}
		f.After = page[len(page)-1].ID
	}
}

// failStale fails a pending claim that no server works on.
func (s *Service) failStale(ctx context.Context, c Claim, reason string) error {
	_, err := s.store.UpdateClaim(ctx, Fail(c.ID, reason))
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fail stale claim %s: %w", c.ID, err)
	}
	return nil
}
