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

// Code identifies a kind of error, for programs.
type Code string

// The codes.
const (
	InvalidRequest       Code = "invalid_request"
	InvalidWorkload      Code = "invalid_workload"
	Unauthorized         Code = "unauthorized"
	Forbidden            Code = "forbidden"
	NotFound             Code = "not_found"
	WorkloadNotFound     Code = "workload_not_found"
	ClaimNotFound        Code = "claim_not_found"
	ContainerNotFound    Code = "container_not_found"
	RunNotFound          Code = "run_not_found"
	SnapshotNotFound     Code = "snapshot_not_found"
	DeliveryNotFound     Code = "delivery_not_found"
	EventHookNotFound    Code = "event_hook_not_found"
	WaitNotFound         Code = "wait_not_found"
	EventRemoved         Code = "event_removed"
	MemoryNotFound       Code = "memory_not_found"
	KeyNotFound          Code = "key_not_found"
	BindingNotFound      Code = "binding_not_found"
	KeyExists            Code = "key_exists"
	FirstCredential      Code = "first_credential"
	CredentialInFile     Code = "credential_in_file"
	FileNotFound         Code = "file_not_found"
	CommandNotFound      Code = "command_not_found"
	CommandNotStarted    Code = "command_not_started"
	TooManyCommands      Code = "too_many_commands"
	AttachedElsewhere    Code = "attached_elsewhere"
	OutputLost           Code = "output_lost"
	DeniedByHook         Code = "denied_by_hook"
	NotSupported         Code = "not_supported"
	NotConfigured        Code = "not_configured"
	MethodNotAllowed     Code = "method_not_allowed"
	RequestTimeout       Code = "request_timeout"
	Conflict             Code = "conflict"
	ContainerInUse       Code = "container_in_use"
	ClaimAborted         Code = "claim_aborted"
	ClaimReleasing       Code = "claim_releasing"
	ClaimNotActive       Code = "claim_not_active"
	ClaimHeld            Code = "claim_exists"
	WaitExists           Code = "wait_exists"
	NoSync               Code = "sync_not_configured"
	MemoryNotShared      Code = "memory_not_shared"
	MemoryFull           Code = "memory_full"
	VersionConflict      Code = "version_conflict"
	FileDenied           Code = "file_denied"
	PathOutside          Code = "path_outside"
	NotAFile             Code = "not_a_file"
	NotDirectory         Code = "not_directory"
	NotEmpty             Code = "not_empty"
	FileChanged          Code = "file_changed"
	ReadOnly             Code = "read_only"
	RangeNotSatisfiable  Code = "range_not_satisfiable"
	TooManyRequests      Code = "too_many_requests"
	FileFailed           Code = "file_failed"
	NoSpace              Code = "no_space"
	NoPortDomain         Code = "no_port_domain"
	RateLimited          Code = "rate_limited"
	QuotaExceeded        Code = "quota_exceeded"
	QuotaNotFound        Code = "quota_not_found"
	PayloadTooLarge      Code = "payload_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	PoolExhausted        Code = "pool_exhausted"
	TooManyWaits         Code = "too_many_waits"
	TooManyConnections   Code = "too_many_connections"
	PortRefused          Code = "port_refused"
	PortFailed           Code = "port_failed"
	Internal             Code = "internal"
	HookFailed           Code = "hook_failed"
	StartFailed          Code = "start_failed"
	Unhealthy            Code = "unhealthy"
	ImageUnavailable     Code = "image_unavailable"
	SyncFailed           Code = "sync_failed"
	EngineUnavailable    Code = "engine_unavailable"
	WrongVersion         Code = "wrong_version"
	StorageUnavailable   Code = "storage_unavailable"
	PoolNotReady         Code = "pool_not_ready"
	NotReady             Code = "not_ready"
	Timeout              Code = "timeout"
)

// statuses are the HTTP status and the title of each code.
var statuses = map[Code]struct {
	status int
	title  string
}{
	InvalidRequest:       {http.StatusUnprocessableEntity, "The request is invalid"},
	InvalidWorkload:      {http.StatusUnprocessableEntity, "The workload file is invalid"},
	Unauthorized:         {http.StatusUnauthorized, "A valid API key is required"},
	Forbidden:            {http.StatusForbidden, "The request is refused"},
	NotFound:             {http.StatusNotFound, "Path not found"},
	WorkloadNotFound:     {http.StatusNotFound, "Workload not found"},
	ClaimNotFound:        {http.StatusNotFound, "Claim not found"},
	ContainerNotFound:    {http.StatusNotFound, "Container not found"},
	RunNotFound:          {http.StatusNotFound, "Hook run not found"},
	SnapshotNotFound:     {http.StatusNotFound, "Snapshot not found"},
	DeliveryNotFound:     {http.StatusNotFound, "Delivery not found"},
	EventHookNotFound:    {http.StatusNotFound, "Event hook not found"},
	WaitNotFound:         {http.StatusNotFound, "Wait not found"},
	EventRemoved:         {http.StatusConflict, "The log no longer has the event"},
	MemoryNotFound:       {http.StatusNotFound, "No value under this key"},
	KeyNotFound:          {http.StatusNotFound, "Key not found"},
	BindingNotFound:      {http.StatusNotFound, "Binding not found"},
	KeyExists:            {http.StatusConflict, "Another key has the name"},
	FirstCredential:      {http.StatusConflict, "The first credential must be an operator's"},
	CredentialInFile:     {http.StatusConflict, "A file has the credential"},
	FileNotFound:         {http.StatusNotFound, "No such file in the container"},
	CommandNotFound:      {http.StatusNotFound, "Command not found"},
	CommandNotStarted:    {http.StatusUnprocessableEntity, "The command did not start"},
	TooManyCommands:      {http.StatusTooManyRequests, "Too many commands run in the container"},
	AttachedElsewhere:    {http.StatusConflict, "Another client has attached to the command"},
	OutputLost:           {http.StatusGone, "The output is not kept any more"},
	DeniedByHook:         {http.StatusForbidden, "A hook has refused it"},
	NotConfigured:        {http.StatusConflict, "The server has no key for secret parameters"},
	NotSupported:         {http.StatusConflict, "The container does not support it"},
	MethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed"},
	RequestTimeout:       {http.StatusRequestTimeout, "The request was received too slowly"},
	Conflict:             {http.StatusConflict, "The state changed concurrently"},
	ContainerInUse:       {http.StatusConflict, "A claim holds the container"},
	ClaimAborted:         {http.StatusConflict, "The claim was released before it was active"},
	ClaimReleasing:       {http.StatusConflict, "The tenant's last claim is still being released"},
	ClaimNotActive:       {http.StatusConflict, "The claim is not active"},
	ClaimHeld:            {http.StatusConflict, "The tenant holds a claim"},
	WaitExists:           {http.StatusConflict, "A wait of the name is open"},
	NoSync:               {http.StatusConflict, "The workload is not configured for this kind of state sync"},
	MemoryNotShared:      {http.StatusConflict, "The workload's memory is not shared"},
	MemoryFull:           {http.StatusConflict, "The memory is full"},
	VersionConflict:      {http.StatusPreconditionFailed, "The value has another version"},
	FileDenied:           {http.StatusForbidden, "The container's user may not do this with the file"},
	PathOutside:          {http.StatusForbidden, "The path leads out of the permitted directories"},
	NotAFile:             {http.StatusConflict, "It is not a regular file"},
	NotDirectory:         {http.StatusConflict, "It is not a directory"},
	NotEmpty:             {http.StatusConflict, "The directory is not empty"},
	FileChanged:          {http.StatusConflict, "The file changed during the request"},
	ReadOnly:             {http.StatusConflict, "The filesystem is read-only"},
	RangeNotSatisfiable:  {http.StatusRequestedRangeNotSatisfiable, "The file ends before the range"},
	TooManyRequests:      {http.StatusTooManyRequests, "Too many requests at once"},
	FileFailed:           {http.StatusBadGateway, "The container could not do it with the file"},
	NoSpace:              {http.StatusInsufficientStorage, "No space is left in the container"},
	NoPortDomain:         {http.StatusConflict, "The server has no domain for ports"},
	RateLimited:          {http.StatusTooManyRequests, "Too many requests"},
	QuotaExceeded:        {http.StatusTooManyRequests, "A quota is exceeded"},
	QuotaNotFound:        {http.StatusNotFound, "There is no quota of its own"},
	PayloadTooLarge:      {http.StatusRequestEntityTooLarge, "The body is too large"},
	UnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body's content type is not supported"},
	PoolExhausted:        {http.StatusTooManyRequests, "All containers of the pool are in use"},
	TooManyWaits:         {http.StatusTooManyRequests, "The claim has too many waits or signals"},
	TooManyConnections:   {http.StatusTooManyRequests, "Too many connections to ports are open"},
	PortRefused:          {http.StatusBadGateway, "Nothing listens on the port"},
	PortFailed:           {http.StatusBadGateway, "The program on the port did not answer"},
	Internal:             {http.StatusInternalServerError, "Internal server error"},
	HookFailed:           {http.StatusBadGateway, "A hook failed"},
	StartFailed:          {http.StatusBadGateway, "The container did not start"},
	Unhealthy:            {http.StatusBadGateway, "The container is not healthy"},
	ImageUnavailable:     {http.StatusBadGateway, "The image is not available"},
	SyncFailed:           {http.StatusBadGateway, "The tenant's state could not be transferred"},
	EngineUnavailable:    {http.StatusServiceUnavailable, "The container engine is unavailable"},
	WrongVersion:         {http.StatusServiceUnavailable, "The container was created by another version of the server"},
	StorageUnavailable:   {http.StatusServiceUnavailable, "The database is unavailable"},
	PoolNotReady:         {http.StatusServiceUnavailable, "No container of the pool is ready"},
	NotReady:             {http.StatusServiceUnavailable, "The server is not ready"},
	Timeout:              {http.StatusGatewayTimeout, "The request timed out"},
}

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
	{snapshot.ErrTooLarge, "too_large"},
	{snapshot.ErrContainer, "tenant"},
	{snapshot.ErrStale, "stale"},
	{snapshot.ErrConflict, "conflict"},
	{snapshot.ErrCorrupt, "damaged"},
	{snapshot.ErrCredentials, "credentials"},
	{snapshot.ErrPathNotAllowed, "not_allowed"},
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
