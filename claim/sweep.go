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

// How often claims are looked for that nobody makes: sooner after storage has
// failed.
const (
	sweepInterval      = 10 * time.Second
	sweepRetryInterval = time.Second
	sweepPageSize      = 500 // claims in memory at a time
	sweepConcurrency   = 16  // changes that storage may commit together
)

// sweepLoop ends this server's pending claims that it does not make, until ctx
// ends: their end could not be recorded, or the answer to their reservation was
// lost. Other servers leave them alone for as long as this one lives. Nothing
// is remembered of them meanwhile, however many claims fail.
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
			// Not later than it would be: claims may fail all the time.
			if soon := time.Now().Add(sweepRetryInterval); soon.Before(nextSweep) {
				nextSweep = soon
			}
		case <-timer.C:
			err := s.sweep(ctx)
			if err != nil && !failing && ctx.Err() == nil {
				s.log.Warn("claims that were not made cannot be ended; retrying", "error", err)
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

// triggerSweep has sweeps look soon.
func (s *Service) triggerSweep() {
	select {
	case s.sweepSignal <- struct{}{}:
	default:
	}
}

// sweep ends the pending claims of this server that no call makes.
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
			// The flight of a claim begins before its record and ends after it, so
			// that one which is read first and has no flight then has no maker.
			if !s.IsOwnedByPeer(c) && !s.isAcquiring(c.ID) {
				g.Go(func() error {
					err := s.failStale(ctx, c, "its end could not be recorded in time")
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

// isAcquiring reports whether this server makes the claim.
func (s *Service) isAcquiring(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.inflight {
		if call.claimID == id {
			return true
		}
	}
	return false
}

// failStale ends a pending claim that nobody makes.
func (s *Service) failStale(ctx context.Context, c Claim, reason string) error {
	_, err := s.store.UpdateClaim(ctx, failTransition(c.ID, reason, nil))
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end claim %s, which nobody makes: %w", c.ID, err)
	}
	s.pools.Wake(c.Workload)
	return nil
}
