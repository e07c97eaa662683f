package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// uploadRetries is how failed uploads are retried. The time is on record, so it
// has no jitter.
var uploadRetries = backoff.Policy{Min: 5 * time.Second, Max: 10 * time.Minute}

// maxTenantAttempts is how often a release is retried automatically after an
// error caused by its tenant. A retry helps only after a race.
const maxTenantAttempts = 5

// hasSyncOnRelease reports whether releases upload the tenants' state.
func (op *operation) hasSyncOnRelease() bool {
	return op.w.Sync != nil && op.w.Sync.Policy.OnRelease
}

// refresh reads what callers can request at any time, on any server: whether the
// claim's state is discarded, and whether its container is destroyed by force.
func (op *operation) refresh(ctx context.Context) error {
	current, err := op.store.Claim(ctx, op.claim.ID)
	if err != nil {
		return fmt.Errorf("read claim %s: %w", op.claim.ID, err)
	}
	op.claim.Discard = op.claim.Discard || current.Discard
	op.container.Health, op.container.Forced = pool.Health(current.Health), current.Forced
	if op.container.Health == pool.Unhealthy { // its record has the reason
		op.container, err = op.pools.Container(ctx, op.claim.Container)
	}
	return err
}

// uploadState uploads the tenant's state, unless it is discarded. Until then
// nothing else happens to the container, because it holds the only copy.
func (op *operation) uploadState(ctx context.Context) error {
	if err := op.refresh(ctx); err != nil || op.claim.Discard || op.lossReason != "" {
		return err
	}
	if op.noteForced(); op.lossReason != "" {
		return nil
	}
	err := op.stopAndUpload(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, claim.ErrDiscarded):
		op.claim.Discard = true
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx) // it was canceled, which is not an error of the sink
	case errors.Is(err, runtime.ErrNotFound):
		// There is nothing left to upload.
		op.unusable, op.lossReason = "it disappeared", "the container disappeared: "+err.Error()
		return nil
	}
	terminating, ended := op.isTerminating(ctx)
	switch syncErr, isSyncError := errors.AsType[*claim.SyncError](err); {
	case ended && (!isSyncError || syncErr.Reason() == claim.FailedByTenant):
		op.unusable, op.lossReason = terminatingReason, "the container is being removed, not by this server, and its files cannot be read any more: "+err.Error()
		return nil
	case errors.Is(err, runtime.ErrUnavailable), errors.Is(err, runtime.ErrStaleFence):
		return fmt.Errorf("upload the tenant's state: %w", err)
	case terminating:
		err = fmt.Errorf("%w: %w", ErrTerminating, err)
	case isSyncError:
		return err
	}
	return &claim.SyncError{Direction: "upload", Err: err}
}

// isTerminating reports whether someone else has the engine remove the container.
// ended is whether its files cannot be read any more: it has been removed, or nothing
// of it runs, and it will not be started again.
func (op *operation) isTerminating(ctx context.Context) (terminating, ended bool) {
	status, err := op.rt.Status(ctx, op.claim.Container)
	if errors.Is(err, runtime.ErrNotFound) {
		return true, true
	}
	terminating = err == nil && status.Condition == runtime.Terminating
	return terminating, terminating && status.State == runtime.Exited
}

// noteForced has the release not use a container whose destruction is forced: an
// upload would end its pre_destroy hooks.
func (op *operation) noteForced() {
	if op.container.Forced == pool.NotForced {
		return
	}
	op.unusable = pool.ForcedReason
	if op.hasSyncOnRelease() && !op.claim.Discard {
		op.lossReason = "the container was lost: " + pool.ForcedReason
	}
}

// exitedReason is why a container that exited by itself is not reused: the reason
// of its exit is unknown.
const exitedReason = "it exited before its release"

// terminatingReason is why a container that someone else has the engine remove is
// not reused.
const terminatingReason = "it is being removed, not by this server"

// stopAndUpload uploads the state after stopping the tenant's processes. If the
// container exits in between, it is stopped again: its files can be read then.
func (op *operation) stopAndUpload(ctx context.Context) error {
	status, err := op.rt.Status(ctx, op.claim.Container)
	if err != nil {
		return err
	}
	switch {
	case status.Condition == runtime.Terminating:
		op.unusable = terminatingReason
	case status.State == runtime.Exited:
		op.unusable = exitedReason
	}
	op.processesEnded = true
	c, _, err := op.claims.StateSync.Upload(ctx, op.claim, op.w, "release")
	if (errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrContainerExited)) && op.unusable != terminatingReason {
		op.unusable = exitedReason
		c, _, err = op.claims.StateSync.Upload(ctx, op.claim, op.w, "release")
	}
	if err == nil {
		op.claim = c
	}
	return err
}

// startTimeout limits how long the start of a container occupies a release. It is
// longer than the backends' own limits.
const startTimeout = 15 * time.Minute

// errStartTimeout is the cause when startTimeout has passed. It is not
// runtime.ErrUnavailable: the backend would have returned that.
var errStartTimeout = fmt.Errorf("the container did not start within %s", startTimeout)

// restart ends all processes in the container and starts its main process.
func (op *operation) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)
	defer cancel()
	return op.rt.Restart(ctx, op.claim.Container, op.claim.ContainerFence)
}

// lossEvents returns the events of lost state, and adds the warning.
func (op *operation) lossEvents() []activity.Event {
	if op.lossReason == "" {
		return nil
	}
	since := "since the claim began"
	if op.claim.Snapshot != "" {
		since = "since snapshot " + op.claim.Snapshot
	}
	message := fmt.Sprintf("changes of tenant %q %s are lost: %s", op.claim.Tenant, since, op.lossReason)
	op.warnings = append(op.warnings, message)
	return []activity.Event{{
		Type: activity.ClaimStateLost, Message: message,
		Data: activity.Data(activity.ClaimStateLostData{
			Error: op.lossReason, Reason: string(op.claim.FailureReason), Snapshot: op.claim.Snapshot, SyncedAt: op.claim.SyncedAt,
		}),
	}}
}

// retainForRetry keeps the claim with its container until the upload succeeds
// or the state is discarded.
func (op *operation) retainForRetry(ctx context.Context, cause *claim.SyncError) (claim.Claim, error) {
	now := time.Now().UTC()
	reason, failures, since := cause.Reason(), 1, &now
	if op.claim.FailureReason == reason {
		failures, since = op.claim.Failures+1, op.claim.FailedAt
	}
	at := retryAt(reason, failures, now)
	why, chain := rootcause.Of(cause)
	retained := claim.Retain(op.claim.ID, "state upload failed; container retained: "+why,
		activity.ClaimReleaseFailedData{Chain: chain, Error: why, Reason: string(reason), Failures: failures, RetryAt: at})
	retained.If = func(c claim.Claim) bool { return !c.Discard }
	retained.Set = func(c *claim.Claim) {
		c.Reason, c.ReasonChain, c.RetryAt, c.Failures, c.FailureReason, c.FailedAt = why, chain, at, failures, reason, since
	}
	c, err := op.store.UpdateClaim(ctx, retained)
	if errors.Is(err, pool.ErrConflict) {
		return op.claim, errAlreadyReleasing // it was discarded, or another server owns it
	}
	if err != nil {
		return op.claim, fmt.Errorf("record the failed release: %w", errors.Join(err, cause))
	}
	op.claim = c
	return c, &FailedError{Claim: c, Err: cause}
}

// retryAt returns when a release with this many failures is retried, or nil
// when it is not retried automatically. An error caused by the tenant persists.
// A stale state is never retried: an upload over the later state would lose
// that one, and a discard would lose this one, so an operator has to decide.
func retryAt(reason claim.FailureReason, failures int, now time.Time) *time.Time {
	if reason == claim.FailedStale || reason == claim.FailedByTenant && failures >= maxTenantAttempts {
		return nil
	}
	at := now.Add(uploadRetries.Delay(failures))
	return &at
}

// FailedError is the error of a failed release. The container and its files
// stay unchanged, and the release is retried at Claim.RetryAt, if that is set.
// A caller who does not need the state can release with Discard.
type FailedError struct {
	Claim claim.Claim
	Err   error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("release claim %s: container retained: %v", e.Claim.ID, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }
