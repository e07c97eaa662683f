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
	// ErrClaimNotFound is returned for an unknown claim.
	ErrClaimNotFound = errors.New("no such claim")
	// ErrNoIdleContainer is returned when no container could be reserved.
	ErrNoIdleContainer = errors.New("no container is idle")
	// ErrReleasing is returned while the tenant's last claim is being released.
	ErrReleasing = errors.New("the tenant's claim is being released")
	// ErrInvalidTenant is returned for an invalid tenant name.
	ErrInvalidTenant = errors.New("invalid tenant")
	// ErrDiscarded is returned when the tenant's state is discarded.
	ErrDiscarded = errors.New("the claim's state is discarded")
)

// UnavailableReason is why no container is available.
type UnavailableReason string

// The reasons why no container is available.
const (
	Exhausted   UnavailableReason = "exhausted"    // max_size containers are claimed
	NotReady    UnavailableReason = "not_ready"    // containers are being created and none is ready
	FillFailing UnavailableReason = "fill_failing" // container creation fails
	Draining    UnavailableReason = "draining"     // the pool is draining
	Deleting    UnavailableReason = "deleting"     // the workload is being deleted
)

// UnavailableError is returned when no container became available before the
// caller's deadline.
type UnavailableError struct {
	Workload   string
	Reason     UnavailableReason
	Detail     string        // a sentence: counts, or why the last container failed
	RetryAfter time.Duration // when to retry
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("no container of %s: %s (%s)", e.Workload, e.Detail, e.Reason)
}

// plainDetails are details that are not about others.
var plainDetails = map[UnavailableReason]string{
	Exhausted:   "all containers are claimed",
	NotReady:    "no container is ready",
	FillFailing: "container creation failed",
	Draining:    "the pool is draining",
	Deleting:    "the workload is being deleted",
}

// Plain returns the error as a tenant may see it: how many claims others have, and
// what the engine answered, is not for it.
func (e *UnavailableError) Plain() *UnavailableError {
	plain := *e
	plain.Detail = plainDetails[e.Reason]
	return &plain
}

// Is reports whether target is pool.ErrFull and the pool is exhausted.
func (e *UnavailableError) Is(target error) bool {
	return target == pool.ErrFull && e.Reason == Exhausted
}

// FailedError is the error of a failed claim. Its container, if it had one, is
// being destroyed. It wraps a *hooks.Error when a hook failed.
type FailedError struct {
	Claim Claim // its final record
	Step  string
	Err   error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("claim %s failed at %s: %v", e.Claim.ID, e.Step, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// SyncError is the error of a failed transfer of a tenant's state. The
// container is not tainted by it.
type SyncError struct {
	Direction string // upload or download
	Err       error
}

func (e *SyncError) Error() string {
	return fmt.Sprintf("%s of the tenant's state: %v", e.Direction, e.Err)
}

func (e *SyncError) Unwrap() error { return e.Err }

// Reason returns the cause of a failed upload.
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

// tenantErrors are the errors that a tenant can cause in its own container:
// unreadable files, and files that are too large.
var tenantErrors = []error{
	snapshot.ErrContainer, snapshot.ErrTooLarge, runtime.ErrBadArchive, runtime.ErrTainted, runtime.ErrContainerExited, runtime.ErrNotRunning,
}

// readError is an error of reading a container while its engine is available.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }

// classifySyncError wraps the error of a transfer in a *SyncError. Errors of
// the container, its engine and the end of the claim are returned unchanged.
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
