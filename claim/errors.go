package claim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

// Errors of this package.
var (
	// ErrClaimNotFound says that there is no such claim.
	ErrClaimNotFound = errors.New("no such claim")
	// ErrNoIdleContainer says that no container could be reserved.
	ErrNoIdleContainer = errors.New("no container is idle")
	// ErrReleasing says that the tenant's last claim is still being released.
	ErrReleasing = errors.New("the tenant's claim is being released")
	// ErrInvalidTenant says that the tenant's name cannot be one.
	ErrInvalidTenant = errors.New("bad tenant")
	// ErrDiscarded says that nothing of what the tenant left is to be kept.
	ErrDiscarded = errors.New("nothing of it is to be kept")
)

// UnavailableReason is why no container could be had.
type UnavailableReason string

// Why no container could be had.
const (
	Exhausted   UnavailableReason = "exhausted"    // all of max_size are taken
	NotReady    UnavailableReason = "not_ready"    // containers are being made and none is ready
	FillFailing UnavailableReason = "fill_failing" // containers cannot be made
	Draining    UnavailableReason = "draining"     // the pool is being emptied
)

// UnavailableError says that no container could be had in the time that the
// caller was willing to wait, and why.
type UnavailableError struct {
	Workload   string
	Reason     UnavailableReason
	Detail     string        // a sentence: counts, or why the last container failed
	RetryAfter time.Duration // when asking again may help
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("no container of %s: %s (%s)", e.Workload, e.Detail, e.Reason)
}

// Is makes every UnavailableError match pool.ErrFull when it is one.
func (e *UnavailableError) Is(target error) bool {
	return target == pool.ErrFull && e.Reason == Exhausted
}

// FailedError says at which step a claim failed. Its container, if it had one,
// is being destroyed. Unwrap leads to a *hooks.Error when a hook was to blame.
type FailedError struct {
	Claim Claim // as it ended
	Step  string
	Err   error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("claim %s failed at %s: %v", e.Claim.ID, e.Step, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// SyncError says that a tenant's state could not be moved, through no fault of
// the container.
type SyncError struct {
	Direction string // upload or download
	Err       error
}

func (e *SyncError) Error() string {
	return fmt.Sprintf("%s of the tenant's state: %v", e.Direction, e.Err)
}

func (e *SyncError) Unwrap() error { return e.Err }

// Reason is to whom it is due that an upload failed.
func (e *SyncError) Reason() FailureReason {
	if errors.Is(e.Err, snapshot.ErrStale) {
		return FailedStale
	}
	if errors.Is(e.Err, runtime.ErrTooOld) {
		return FailedByVersion
	}
	matches := func(target error) bool { return errors.Is(e.Err, target) }
	if _, unreadable := errors.AsType[*readError](e.Err); unreadable || slices.ContainsFunc(tenantErrors, matches) {
		return FailedByTenant
	}
	return FailedBySink
}

// tenantErrors are what a tenant can make of a container whose state is to be
// taken: whatever keeps it from being read, and what is too much.
var tenantErrors = []error{
	snapshot.ErrContainer, snapshot.ErrTooLarge, runtime.ErrBadArchive, runtime.ErrTainted, runtime.ErrContainerExited, runtime.ErrNotRunning,
}

// readError is what went wrong with reading a container whose engine answers.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }

// classifySyncError makes a *SyncError of what went wrong with a transfer, unless the
// container, its engine or the end of the claim is to blame.
func classifySyncError(direction string, err error) error {
	for _, target := range []error{
		ErrNotActive, ErrDiscarded, runtime.ErrUnavailable, runtime.ErrNotFound, runtime.ErrNotRunning, runtime.ErrContainerExited, runtime.ErrTainted,
		runtime.ErrStaleFence,
	} {
		if err == nil || errors.Is(err, target) {
			return err
		}
	}
	return &SyncError{Direction: direction, Err: err}
}
