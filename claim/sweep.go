package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// How stale claims are swept.
const (
	sweepDelay       = time.Second // after what was not recorded: one sweep serves many
	lateSweepDelay   = 10 * time.Second
	sweepPageSize    = 500 // claims per page
	sweepConcurrency = 16  // concurrent changes
)

// sweepRetries is how a sweep is repeated while storage fails.
var sweepRetries = backoff.Policy{Min: time.Second, Max: time.Second}

// newSweeper returns the loop that fails this server's stale pending claims: claims
// whose failure could not be recorded, or whose reservation reply was lost. Other
// servers do not touch them while this one lives. The ends of such claims' calls wake
// it, and the records of new claims. Memory use does not depend on the number of failed
// claims.
func (s *Service) newSweeper() *workqueue.Loop {
	return workqueue.NewLoop("sweep of claims", func(ctx context.Context) (never time.Time, err error) {
		return never, s.sweep(ctx)
	}, sweepRetries, s.log)
}

// markUnrecorded has a claim swept when its call has ended.
func (s *Service) markUnrecorded(id string) {
	if call := s.findCall(id); call != nil {
		call.Arg.unrecorded.Store(true)
	}
}

// endCall ends a call, and has what it has not recorded swept, also after a panic.
func (s *Service) endCall(call *call) {
	call.End()
	if !call.Arg.hasReturned.Load() || call.Arg.unrecorded.Load() {
		s.sweeper.WakeAfter(sweepDelay)
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
