package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/dryrun"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// errorCodes maps errors to codes. The first row that matches counts, so causes
// come before the flows that they end.
var errorCodes = []struct {
	err  error
	code Code
}{
	{errRunNotFound, RunNotFound},
	{errInvalid, InvalidRequest},
	{dryrun.ErrInvalid, InvalidRequest},
	{publish.ErrInvalid, InvalidRequest},
	{activity.ErrType, InvalidRequest},
	{errNotReady, NotReady},
	{credential.ErrNotFound, KeyNotFound},
	{credential.ErrExists, KeyExists},
	{credential.ErrFirst, FirstCredential},
	{credential.ErrFromFile, CredentialInFile},
	{credential.ErrForbidden, Forbidden},
	{credential.ErrInvalid, InvalidRequest},
	{wait.ErrNotFound, WaitNotFound},
	{wait.ErrInvalid, InvalidRequest},
	{wait.ErrNameInUse, WaitExists},
	{wait.ErrOtherRequest, Conflict},
	{wait.ErrTooMany, TooManyWaits},
	{wait.ErrConflict, Conflict},
	{delivery.ErrNotFound, DeliveryNotFound},
	{delivery.ErrHookNotFound, EventHookNotFound},
	{delivery.ErrEventRemoved, EventRemoved},
	{delivery.ErrConflict, Conflict},
	{delivery.ErrClaimEnded, ClaimNotActive},
	{delivery.ErrClaimPending, ClaimNotActive},
	{delivery.ErrTestRunning, Conflict},
	{access.ErrTooManyTransfers, TooManyRequests},
	{access.ErrTooManyCalls, TooManyRequests},
	{claim.ErrTooManyArchives, TooManyRequests},
	{auth.ErrRevoked, Unauthorized},
	{auth.ErrExpired, Unauthorized},
	{runtime.ErrBadArchive, InvalidRequest},
	{runtime.ErrUnsupported, NotSupported},
	{runtime.ErrPortRefused, PortRefused},
	{runtime.ErrTooManyConnections, TooManyConnections},
	{memory.ErrInvalid, InvalidRequest},
	{memory.ErrTooLarge, PayloadTooLarge},
	{memory.ErrNotFound, MemoryNotFound},
	{memory.ErrNotShared, MemoryNotShared},
	{memory.ErrRate, RateLimited},
	{quota.ErrInvalid, InvalidRequest},
	{quota.ErrNotFound, QuotaNotFound},
	{quota.ErrTooMany, Conflict},
	{access.ErrInvalid, InvalidRequest},
	{runtime.ErrUnknownRun, CommandNotFound},
	{runtime.ErrTooManyCommands, TooManyCommands},
	{runtime.ErrAttachedElsewhere, AttachedElsewhere},
	{runtime.ErrOutputLost, OutputLost},
	{pool.ErrWorkloadNotFound, WorkloadNotFound},
	{pool.ErrContainerNotFound, ContainerNotFound},
	{pool.ErrNoOutput, ContainerNotFound},
	{claim.ErrClaimNotFound, ClaimNotFound},
	{claim.ErrInvalidTenant, InvalidRequest},
	{claim.ErrNotConfigured, NotConfigured},
	{claim.ErrNoLifetime, Conflict},
	{pool.ErrInvalidScale, InvalidRequest},
	{pool.ErrInUse, ContainerInUse},
	{claim.ErrReleasing, ClaimReleasing},
	{claim.ErrOtherEnvironment, ClaimHeld},
	{claim.ErrNotActive, ClaimNotActive},
	{claim.ErrClaimExists, ClaimHeld},
	{claim.ErrSyncNotConfigured, NoSync},
	{snapshot.ErrNoSnapshot, SnapshotNotFound},
	{snapshot.ErrTooLarge, PayloadTooLarge},
	{pool.ErrSeed, SyncFailed},
	{pool.ErrUnhealthy, Unhealthy},
	{runtime.ErrImageUnavailable, ImageUnavailable},
	{runtime.ErrNewer, WrongVersion},
	{runtime.ErrTooOld, WrongVersion},
	{runtime.ErrUnavailable, EngineUnavailable},
	{runtime.ErrInvalid, StartFailed},
	{runtime.ErrNotRunning, Unhealthy},
	{runtime.ErrContainerExited, Unhealthy},
	{runtime.ErrTainted, Unhealthy},
	{runtime.ErrNotFound, ContainerNotFound},
	{pool.ErrFull, PoolExhausted},
	{pool.ErrConflict, Conflict},
	{context.DeadlineExceeded, Timeout},
	{context.Canceled, Timeout},
}

// Errors of this package.
var (
	errInvalid     = errors.New("invalid request")
	errRunNotFound = errors.New("no such hook run")
	errNotReady    = errors.New("not ready")
)

// syncReasons maps the errors of state transfers to reasons, for programs. Any
// other error is the sink's, and a retry may help.
var syncReasons = []struct {
	err    error
	reason string
}{
	{release.ErrTerminating, "terminating"},
	{snapshot.ErrTooLarge, "too_large"},
	{snapshot.ErrContainer, "tenant"},
	{snapshot.ErrStale, "stale"},
	{snapshot.ErrConflict, "conflict"},
	{snapshot.ErrCorrupt, "damaged"},
	{snapshot.ErrCredentials, "credentials"},
	{snapshot.ErrPathNotAllowed, "not_allowed"},
	{snapshot.ErrFormat, "unknown_format"},
	{snapshot.ErrUnknownKey, "unknown_key"},
}

func syncReason(err error) string {
	for _, row := range syncReasons {
		if errors.Is(err, row.err) {
			return row.reason
		}
	}
	return "sink"
}

// defaultRetryAfter is the Retry-After of errors that have none of their own.
const defaultRetryAfter = time.Second

// classify returns the code of err and fills in the problem's fields for it.
func (a *API) classify(err error, p *Problem) Code {
	if exceeded, ok := errors.AsType[*quota.ExceededError](err); ok {
		return classifyQuota(exceeded, p)
	}
	if failed, ok := errors.AsType[*claim.FailedError](err); ok {
		p.Claim = failed.Claim.ID
		p.Step = failed.Step
	}
	if errors.Is(err, claim.ErrAborted) {
		return ClaimAborted
	}
	if invalid, ok := errors.AsType[workload.ValidationErrors](err); ok {
		p.ValidationErrors = invalid
		return InvalidWorkload
	}
	if hook, ok := errors.AsType[*hooks.Error](err); ok {
		p.Run = &hook.Run
		return HookFailed
	}
	if kept, ok := errors.AsType[*release.FailedError](err); ok {
		p.Claim, p.retry = kept.Claim.ID, defaultRetryAfter
		if at := kept.Claim.RetryAt; at != nil {
			p.retry = max(time.Until(*at), defaultRetryAfter)
		}
	}
	if unavailable := a.storageUnavailable(err); unavailable != nil {
		p.Detail, p.retry = unavailable.Error(), max(p.retry, defaultRetryAfter)
		return StorageUnavailable
	}
	// An upload whose claim was released concurrently is not the sink's error.
	if _, ok := errors.AsType[*claim.SyncError](err); ok && !errors.Is(err, claim.ErrNotActive) {
		p.Reason = syncReason(err)
		return SyncFailed
	}
	if none, ok := errors.AsType[*claim.UnavailableError](err); ok {
		p.Reason, p.retry = string(none.Reason), max(none.RetryAfter, defaultRetryAfter)
		if none.Reason == claim.Exhausted {
			return PoolExhausted
		}
		return PoolNotReady
	}
	if conflict, ok := errors.AsType[*memory.VersionError](err); ok {
		p.CurrentVersion = &conflict.Version
		return VersionConflict
	}
	if _, ok := errors.AsType[*memory.QuotaError](err); ok {
		return MemoryFull
	}
	if limit, ok := errors.AsType[*publish.LimitError](err); ok {
		p.Dropped, p.retry = limit.Dropped, limit.RetryAfter
		return RateLimited
	}
	if code, ok := codeOfType(err, p); ok {
		return code
	}
	for _, row := range errorCodes {
		if errors.Is(err, row.err) {
			if s := statuses[row.code].status; s == http.StatusServiceUnavailable || s == http.StatusTooManyRequests {
				p.retry = defaultRetryAfter
			}
			return row.code
		}
	}
	return Internal
}

// codeOfType returns the code of an error of a type of a use. Of its fields only the
// hook that has denied it is shown.
func codeOfType(err error, p *Problem) (Code, bool) {
	if file, ok := errors.AsType[*runtime.FileError](err); ok {
		return fileCode(file), true
	}
	if denied, ok := errors.AsType[*access.DeniedError](err); ok {
		p.Reason = denied.Hook
		return DeniedByHook, true
	}
	_, ok := errors.AsType[*runtime.StartError](err)
	return StartFailed, ok
}

// storageUnavailable returns the error of Options.StorageUnavailable that
// matches, or nil. A readiness probe reports the cause itself.
func (a *API) storageUnavailable(err error) error {
	for _, down := range a.o.StorageUnavailable {
		if errors.Is(err, down) && !errors.Is(err, errNotReady) {
			return down
		}
	}
	return nil
}
