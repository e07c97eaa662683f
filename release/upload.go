package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// How long after a failed upload the release is tried again: doubled each
// time, from the first to the longest.
const (
	minUploadBackoff = 5 * time.Second
	maxUploadBackoff = 10 * time.Minute
)

// maxTenantAttempts is how often a release is tried by itself that fails through a
// fault of its tenant. Trying again mends what was a race, and nothing else.
const maxTenantAttempts = 5

// hasSyncOnRelease reports whether the workload's releases take the tenants' state.
func (op *operation) hasSyncOnRelease() bool {
	return op.w.Sync != nil && op.w.Sync.Policy.OnRelease
}

// refreshDiscard looks whether the claim's state is still to be kept. Whoever asks for
// something else may do so at any time, on any server.
func (op *operation) refreshDiscard(ctx context.Context) error {
	current, err := op.store.Claim(ctx, op.claim.ID)
	if err != nil {
		return fmt.Errorf("look at claim %s: %w", op.claim.ID, err)
	}
	op.claim.Discard = op.claim.Discard || current.Discard
	return nil
}

// uploadState takes the tenant's state into a snapshot, unless nothing of it is to
// be kept. Until that is done nothing else happens to the container: it holds
// the last copy.
func (op *operation) uploadState(ctx context.Context) error {
	if err := op.refreshDiscard(ctx); err != nil || op.claim.Discard || op.lossReason != "" {
		return err
	}
	err := op.stopAndUpload(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, claim.ErrDiscarded):
		op.claim.Discard = true
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx) // it was cut off, which is no fault of the sink
	case errors.Is(err, runtime.ErrNotFound):
		// Nothing is left to be kept.
		op.disposeReason, op.lossReason = "it disappeared", "the container disappeared: "+err.Error()
		return nil
	case errors.Is(err, runtime.ErrUnavailable), errors.Is(err, runtime.ErrStaleFence):
		return fmt.Errorf("take the tenant's state into a snapshot: %w", err)
	}
	if _, isSyncError := errors.AsType[*claim.SyncError](err); isSyncError {
		return err
	}
	return &claim.SyncError{Direction: "upload", Err: err}
}

// stopAndUpload takes the state, while no process of the tenant runs. A container that
// has ended is started for it: its files are read from inside.
func (op *operation) stopAndUpload(ctx context.Context) error {
	op.processesEnded = true
	c, _, err := op.claims.StateSync.Upload(ctx, op.claim, op.w, "release")
	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrContainerExited) {
		op.disposeReason = "it had ended before its tenant left"
		if err = op.rt.Start(ctx, op.claim.Container); err != nil {
			// A tenant may have removed the main process's program, or what the
			// engine needs to start a container.
			err = fmt.Errorf("%w: it does not start again: %w", runtime.ErrNotRunning, err)
		} else {
			c, _, err = op.claims.StateSync.Upload(ctx, op.claim, op.w, "release")
		}
	}
	if err == nil {
		op.claim = c
	}
	return err
}

// lossEvents are the events of what the release could not keep, and its warning.
func (op *operation) lossEvents() []activity.Event {
	if op.lossReason == "" {
		return nil
	}
	since := "since the claim began"
	if op.claim.Snapshot != "" {
		since = "since snapshot " + op.claim.Snapshot
	}
	message := fmt.Sprintf("what tenant %q changed %s is lost: %s", op.claim.Tenant, since, op.lossReason)
	op.warnings = append(op.warnings, message)
	return []activity.Event{{
		Type: activity.ClaimStateLost, Message: message,
		Data: activity.Data(map[string]any{
			"error": op.lossReason, "reason": op.claim.FailureReason, "snapshot": op.claim.Snapshot, "synced_at": op.claim.SyncedAt,
		}),
	}}
}

// retainForRetry keeps the claim with its container, until the upload can be done or
// somebody says that the state need not be kept.
func (op *operation) retainForRetry(ctx context.Context, cause *claim.SyncError) (claim.Claim, error) {
	now := time.Now().UTC()
	reason, failures, since := cause.Reason(), 1, &now
	if op.claim.FailureReason == reason {
		failures, since = op.claim.Failures+1, op.claim.FailedAt
	}
	at := retryAt(reason, failures, now)
	c, err := op.store.UpdateClaim(ctx, claim.Transition{
		ID: op.claim.ID, From: []claim.State{claim.Releasing}, To: claim.ReleaseFailed,
		If: func(c claim.Claim) bool { return !c.Discard },
		Set: func(c *claim.Claim) {
			c.Reason, c.RetryAt, c.Failures, c.FailureReason, c.FailedAt = cause.Error(), at, failures, reason, since
		},
		Events: []activity.Event{{
			Type:    activity.ClaimReleaseFailed,
			Message: "claim keeps its container, because its tenant's state could not be kept: " + cause.Error(),
			Data:    activity.Data(map[string]any{"error": cause.Error(), "reason": reason, "failures": failures, "retry_at": at}),
		}},
	})
	if errors.Is(err, pool.ErrConflict) {
		return op.claim, errAlreadyReleasing // nothing is to be kept any more, or somebody else is at it
	}
	if err != nil {
		return op.claim, fmt.Errorf("record that the release failed: %w", errors.Join(err, cause))
	}
	op.claim = c
	return c, &FailedError{Claim: c, Err: cause}
}

// retryAt is when a release that failed so often is tried again, nil for not by
// itself. A fault of the tenant's stays. And no later try is right for what is
// stale: to put it over a later state would lose that one, to give it up would
// lose this, so that it is for somebody to say.
func retryAt(reason claim.FailureReason, failures int, now time.Time) *time.Time {
	if reason == claim.FailedStale || reason == claim.FailedByTenant && failures >= maxTenantAttempts {
		return nil
	}
	at := now.Add(min(minUploadBackoff<<min(failures-1, 20), maxUploadBackoff))
	return &at
}

// FailedError says that a claim could not be released: its container and all
// that is in it stay as they are, and the release is tried again at
// Claim.RetryAt, if that is set. Whoever does not want the state can release
// with Discard.
type FailedError struct {
	Claim claim.Claim
	Err   error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("claim %s keeps its container: %v", e.Claim.ID, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// startRetries tries releases again whose time has come, and says when to look again.
func (s *Service) startRetries(ctx context.Context, tasks *keyedTasks, listed map[string]bool) (time.Time, error) {
	now := time.Now()
	next := now.Add(maxPollInterval)
	failed, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.ReleaseFailed}})
	if err != nil {
		return next, fmt.Errorf("list the releases that failed: %w", err)
	}
	for _, c := range failed {
		listed[c.ID] = true
		at, r, err := s.nextRetry(ctx, c)
		if err != nil {
			return next, err
		}
		if at.IsZero() {
			continue
		}
		at = tasks.dueAt(c.ID, at)
		if !at.After(now) {
			tasks.start(c.ID, c.Workload, func() {
				_, err := s.Release(ctx, c.ID, r)
				s.logFailure(ctx, c, err)
			})
		} else if at.Before(next) {
			next = at
		}
	}
	return next, nil
}

// nextRetry is what comes next by itself for a release that failed, and when: that
// it is tried again, or that the state is given up; the zero time for neither.
func (s *Service) nextRetry(ctx context.Context, c claim.Claim) (time.Time, Request, error) {
	var at time.Time
	if c.RetryAt != nil {
		at = *c.RetryAt
	}
	retryRequest := Request{Reason: "its release is tried again", Discard: c.Discard}
	if c.Discard || c.FailureReason != claim.FailedByTenant || c.FailedAt == nil {
		return at, retryRequest, nil
	}
	ttl, err := s.failedTTL(ctx, c.Workload)
	if err != nil || ttl <= 0 {
		return at, retryRequest, err
	}
	end := c.FailedAt.Add(ttl)
	if !at.IsZero() && at.Before(end) {
		return at, retryRequest, nil
	}
	return end, Request{
		Reason: fmt.Sprintf("its tenant's state could not be kept for %s", ttl), skipUpload: true,
		onlyIf: func(now claim.Claim) bool {
			return now.State == claim.ReleaseFailed && now.FailureReason == claim.FailedByTenant && now.Failures >= c.Failures
		},
	}, nil
}

// failedTTL is for how long what a workload's tenants have made unreadable is
// kept. While the workload is being deleted, that is as its file said last.
func (s *Service) failedTTL(ctx context.Context, workload string) (time.Duration, error) {
	w, _, err := s.pools.Catalog.Current(ctx, workload)
	if errors.Is(err, pool.ErrWorkloadNotFound) {
		return 0, nil // its containers are not there either
	}
	if err != nil {
		return 0, err
	}
	return w.Pool.ReleaseFailedTTL, nil
}
