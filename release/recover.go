package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// TakeOver makes this server the owner of the releases among the given claims
// of a terminated server, and ends those of its hook runs that no flow resumes.
// It is called after the claims and the pools have recovered, because their
// failed claims and containers are recorded by then.
func (s *Service) TakeOver(ctx context.Context, claims, runs []string) error {
	for _, id := range claims {
		_, err := s.store.UpdateClaim(ctx, claim.Own(id, claim.Releasing))
		if err != nil && !errors.Is(err, pool.ErrConflict) {
			return fmt.Errorf("take over the release of claim %s: %w", id, err)
		}
	}
	s.wake() // a takeover has no event
	return s.runner.MarkUnknown(ctx, runs, s.willResume)
}

// willResume reports whether the flow of a hook run will resume the run.
func (s *Service) willResume(ctx context.Context, r hooks.Run) (bool, error) {
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
		state = string(c.State)
	}
	return state != "" && state == resumed.State, nil
}

// RunResumes completes the interrupted releases of this server, including those
// that it took over, until ctx ends. They run concurrently, and each is retried
// with backoff until it completes.
func (s *Service) RunResumes(ctx context.Context) error {
	tasks := newKeyedTasks(parallelReleases)
	defer tasks.wait()
	return s.pollLoop(ctx, tasks, s.resumeSignal, func() (time.Time, error) { return s.resumeDue(ctx, tasks) })
}

// resumeDue starts the interrupted releases that are due, and returns the next
// poll time.
func (s *Service) resumeDue(ctx context.Context, tasks *keyedTasks) (time.Time, error) {
	now := time.Now()
	next := now.Add(maxPollInterval)
	releasing, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.Releasing}})
	if err != nil {
		return next, fmt.Errorf("list the releases in progress: %w", err)
	}
	listed := map[string]bool{}
	for _, c := range releasing {
		listed[c.ID] = true
		if s.claims.IsOwnedByPeer(c) || s.isInProgress(c.ID) {
			continue // the owner or the running call reports its errors
		}
		if at := tasks.dueAt(c.ID, time.Time{}); at.After(now) {
			if at.Before(next) {
				next = at
			}
			continue
		}
		tasks.start(c.ID, c.Workload, func() {
			_, err := s.Release(ctx, c.ID, Request{Reason: c.Reason, Discard: c.Discard})
			s.logFailure(ctx, c, err)
		})
	}
	tasks.retain(listed)
	return next, nil
}
