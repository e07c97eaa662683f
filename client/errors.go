package client

import (
	"errors"
	"time"
)

// ErrNoResponse is the error of a call that got no response: the server could
// not be reached, or the connection broke.
var ErrNoResponse = errors.New("no answer")

// Error is a response of the server that is an error.
type Error struct {
	Type             string            `json:"type"` // the code as a URN
	Title            string            `json:"title"`
	Status           int               `json:"status"`                    // of HTTP
	Code             Code              `json:"code"`                      // empty when something else than Hostler answered
	Detail           string            `json:"detail"`                    // what went wrong this time
	Instance         string            `json:"instance"`                  // the id of the request, which the server's log has
	Reason           string            `json:"reason,omitempty"`          // of CodePoolExhausted and CodePoolNotReady
	Claim            string            `json:"claim,omitempty"`           // that failed, or could not be released
	Dropped          int64             `json:"dropped,omitempty"`         // of CodeRateLimited: how many events of the claim so far
	Quota            string            `json:"quota,omitempty"`           // of CodeQuotaExceeded: which one
	Limit            *int64            `json:"limit,omitempty"`           // of the quota
	Current          *int64            `json:"current,omitempty"`         // of CodeQuotaExceeded: what is used
	Step             string            `json:"step,omitempty"`            // at which the claim failed
	Run              *Run              `json:"run,omitempty"`             // of CodeHookFailed: the attempt that failed
	CurrentVersion   *int64            `json:"current_version,omitempty"` // of CodeVersionConflict; 0 when there is no value
	ValidationErrors []ValidationError `json:"errors,omitempty"`          // of CodeInvalidRequest and CodeInvalidWorkload

	// RetryAfter is when to try again; 0 when the server does not say.
	RetryAfter time.Duration `json:"-"`
}

// Error returns the detail.
func (e *Error) Error() string { return e.Detail }

// ValidationError is one thing that is wrong with a request or a file.
type ValidationError struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1
	Column  int    `json:"column,omitempty"` // from 1
	Field   string `json:"field,omitempty"`  // its path, such as hooks.post_claim[1].timeout
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to write instead
}

// Code names a kind of error.
type Code string

// The codes; docs/api.md describes them.
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeInvalidWorkload      Code = "invalid_workload"
	CodeUnauthorized         Code = "unauthorized"
	CodeForbidden            Code = "forbidden"
	CodeNotFound             Code = "not_found"
	CodeWorkloadNotFound     Code = "workload_not_found"
	CodeClaimNotFound        Code = "claim_not_found"
	CodeContainerNotFound    Code = "container_not_found"
	CodeRunNotFound          Code = "run_not_found"
	CodeSnapshotNotFound     Code = "snapshot_not_found"
	CodeDeliveryNotFound     Code = "delivery_not_found"
	CodeEventHookNotFound    Code = "event_hook_not_found"
	CodeWaitNotFound         Code = "wait_not_found"
	CodeEventRemoved         Code = "event_removed"
	CodeMemoryNotFound       Code = "memory_not_found"
	CodeKeyNotFound          Code = "key_not_found"
	CodeBindingNotFound      Code = "binding_not_found"
	CodeKeyExists            Code = "key_exists"
	CodeFirstCredential      Code = "first_credential"
	CodeCredentialInFile     Code = "credential_in_file"
	CodeFileNotFound         Code = "file_not_found"
	CodeCommandNotFound      Code = "command_not_found"
	CodeCommandNotStarted    Code = "command_not_started"
	CodeTooManyCommands      Code = "too_many_commands"
	CodeAttachedElsewhere    Code = "attached_elsewhere"
	CodeOutputLost           Code = "output_lost"
	CodeDeniedByHook         Code = "denied_by_hook"
	CodeNotSupported         Code = "not_supported"
	CodeNotConfigured        Code = "not_configured"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeRequestTimeout       Code = "request_timeout"
	CodeConflict             Code = "conflict"
	CodeContainerInUse       Code = "container_in_use"
	CodeClaimAborted         Code = "claim_aborted"
	CodeClaimReleasing       Code = "claim_releasing"
	CodeClaimNotActive       Code = "claim_not_active"
	CodeClaimHeld            Code = "claim_exists"
	CodeWaitExists           Code = "wait_exists"
	CodeNoSync               Code = "sync_not_configured"
	CodeMemoryNotShared      Code = "memory_not_shared"
	CodeMemoryFull           Code = "memory_full"
	CodeVersionConflict      Code = "version_conflict"
	CodeFileDenied           Code = "file_denied"
	CodePathOutside          Code = "path_outside"
	CodeNotAFile             Code = "not_a_file"
	CodeNotDirectory         Code = "not_directory"
	CodeNotEmpty             Code = "not_empty"
	CodeFileChanged          Code = "file_changed"
	CodeReadOnly             Code = "read_only"
	CodeRangeNotSatisfiable  Code = "range_not_satisfiable"
	CodeTooManyRequests      Code = "too_many_requests"
	CodeFileFailed           Code = "file_failed"
	CodeNoSpace              Code = "no_space"
	CodeNoPortDomain         Code = "no_port_domain"
	CodeTooManyConnections   Code = "too_many_connections"
	CodePortRefused          Code = "port_refused"
	CodePortFailed           Code = "port_failed"
	CodeRateLimited          Code = "rate_limited"
	CodeQuotaExceeded        Code = "quota_exceeded"
	CodeQuotaNotFound        Code = "quota_not_found"
	CodePayloadTooLarge      Code = "payload_too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodePoolExhausted        Code = "pool_exhausted"
	CodeTooManyWaits         Code = "too_many_waits"
	CodeInternal             Code = "internal"
	CodeHookFailed           Code = "hook_failed"
	CodeStartFailed          Code = "start_failed"
	CodeUnhealthy            Code = "unhealthy"
	CodeImageUnavailable     Code = "image_unavailable"
	CodeSyncFailed           Code = "sync_failed"
	CodeEngineUnavailable    Code = "engine_unavailable"
	CodeWrongVersion         Code = "wrong_version"
	CodeStorageUnavailable   Code = "storage_unavailable"
	CodePoolNotReady         Code = "pool_not_ready"
	CodeNotReady             Code = "not_ready"
	CodeTimeout              Code = "timeout"
)
