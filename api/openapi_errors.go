package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// operationCodes are the codes of an operation's errors, in addition to those of
// every operation (see commonCodes) and to those of its claim's container, where it
// needs that.
var operationCodes = map[string][]Code{
	"get-workload":      {WorkloadNotFound},
	"apply-workload":    {InvalidWorkload, Conflict, ImageUnavailable, EngineUnavailable},
	"delete-workload":   {WorkloadNotFound, Conflict},
	"get-pool":          {WorkloadNotFound},
	"scale-pool":        {WorkloadNotFound, Conflict},
	"drain-pool":        {WorkloadNotFound, Conflict},
	"get-container":     {ContainerNotFound},
	"destroy-container": {ContainerNotFound, ContainerInUse, Conflict},
	"container-logs":    {ContainerNotFound, EngineUnavailable, WrongVersion, Unhealthy},
	"claim": {
		WorkloadNotFound, Conflict, NotConfigured, ClaimAborted, ClaimReleasing, PoolExhausted, HookFailed, StartFailed, Unhealthy,
		ImageUnavailable, SyncFailed, EngineUnavailable, WrongVersion, PoolNotReady, ClaimHeld, NotSupported,
		QuotaExceeded,
	},
	"get-claim":        {ClaimNotFound},
	"extend":           {ClaimNotFound, ClaimNotActive, Conflict},
	"touch":            {ClaimNotFound, ClaimNotActive},
	"set-activity":     {ClaimNotFound, ClaimNotActive, RateLimited},
	"release":          {ClaimNotFound, Conflict, HookFailed, Unhealthy, SyncFailed, EngineUnavailable, WrongVersion},
	"test-claim":       {ClaimNotFound, ClaimNotActive, Conflict, Unhealthy, EngineUnavailable, WrongVersion},
	"wait":             {ClaimNotFound, ClaimNotActive, WaitExists, Conflict, TooManyWaits},
	"get-wait":         {WaitNotFound},
	"signal":           {ClaimNotFound, ClaimNotActive, WaitNotFound, Conflict, TooManyWaits},
	"sync":             {ClaimNotFound, ClaimNotActive, NoSync, SyncFailed, Unhealthy, EngineUnavailable, WrongVersion},
	"list-memory":      {ClaimNotFound, ClaimNotActive, MemoryNotShared},
	"get-memory":       {ClaimNotFound, ClaimNotActive, MemoryNotShared, MemoryNotFound},
	"put-memory":       {ClaimNotFound, ClaimNotActive, MemoryNotShared, MemoryFull, VersionConflict, RateLimited},
	"delete-memory":    {ClaimNotFound, ClaimNotActive, MemoryNotShared, MemoryNotFound, VersionConflict, RateLimited},
	"list-snapshots":   {WorkloadNotFound, NoSync, SyncFailed},
	"restore-snapshot": {WorkloadNotFound, SnapshotNotFound, NoSync, ClaimHeld, ClaimReleasing, Conflict, SyncFailed},
	"verify-snapshot":  {WorkloadNotFound, SnapshotNotFound, NoSync, TooManyRequests, SyncFailed},
	"export-snapshot":  {WorkloadNotFound, SnapshotNotFound, NoSync, TooManyRequests, SyncFailed},
	"import-snapshot":  {WorkloadNotFound, NoSync, ClaimHeld, TooManyRequests, Conflict, SyncFailed},
	"get-run":          {RunNotFound},
	"get-delivery":     {DeliveryNotFound},
	"retry-delivery":   {DeliveryNotFound, Conflict, EventRemoved, EventHookNotFound, ClaimNotActive},
	"discard-delivery": {DeliveryNotFound, Conflict},
	"events":           {TooManyRequests},
	"follow-events":    {TooManyRequests},
	"replay-events":    {WorkloadNotFound, EventHookNotFound, Conflict},
	"test-hooks":       {WorkloadNotFound},
	"publish-event":    {ClaimNotFound, ClaimNotActive, RateLimited},
	"create-key":       {KeyExists, FirstCredential},
	"get-key":          {KeyNotFound},
	"revoke-key":       {KeyNotFound, CredentialInFile},
	"create-token":     {ClaimNotFound},
	"get-binding":      {BindingNotFound},
	"put-binding":      {FirstCredential, CredentialInFile},
	"delete-binding":   {BindingNotFound, CredentialInFile},
	"set-quota":        {Conflict},
	"delete-quota":     {QuotaNotFound},
	"readyz":           {NotReady},
}

// pathCodes are the codes of the operations without a row, by a part of the path.
var pathCodes = map[string][]Code{
	"/v1/claims/{id}": {
		ClaimNotFound, ClaimNotActive, Conflict, RateLimited, Unhealthy, EngineUnavailable, WrongVersion,
	},
}

// commonCodes returns the codes that every operation of its kind has.
func commonCodes(o *huma.Operation) []Code {
	codes := []Code{Internal}
	if isProbe(o.Path) {
		return codes
	}
	codes = append(codes, Unauthorized, Forbidden, RateLimited)
	if !strings.HasPrefix(o.Path, "/v1/") {
		return codes
	}
	codes = append(codes, InvalidRequest, StorageUnavailable, Timeout)
	if o.RequestBody != nil {
		codes = append(codes, RequestTimeout, PayloadTooLarge, UnsupportedMediaType, TooManyRequests)
	}
	return codes
}

func isProbe(path string) bool { return path == "/healthz" || path == "/readyz" }

// describeErrors adds a response for each status of an operation's errors.
func describeErrors(o *huma.Operation) {
	codes, ok := operationCodes[o.OperationID]
	for part, more := range pathCodes {
		if !ok && strings.HasPrefix(o.Path, part) {
			codes = more
		}
	}
	byStatus := map[int][]Code{}
	for _, c := range append(commonCodes(o), codes...) {
		byStatus[statuses[c].status] = append(byStatus[statuses[c].status], c)
	}
	if len(byStatus[http.StatusUnprocessableEntity]) > 0 {
		byStatus[http.StatusBadRequest] = []Code{InvalidRequest} // malformed
	}
	for status, codes := range byStatus {
		if o.Responses[strconv.Itoa(status)] != nil {
			continue
		}
		slices.SortFunc(codes, func(a, b Code) int { return cmp.Compare(a, b) })
		var lines []string
		for _, c := range slices.Compact(codes) {
			lines = append(lines, "`"+string(c)+"`: "+statuses[c].title+".")
		}
		same := *o.Responses["default"]
		same.Description = strings.Join(lines, " ")
		o.Responses[strconv.Itoa(status)] = &same
	}
}

// retryStatuses may have Retry-After.
var retryStatuses = []string{"429", "502", "503"}

// describeHeaders adds the headers that responses have.
func describeHeaders(o *huma.Operation) {
	for status, r := range o.Responses {
		headers := map[string]*huma.Param{"X-Request-Id": {Ref: "#/components/headers/X-Request-Id"}}
		if slices.Contains(retryStatuses, status) {
			headers["Retry-After"] = &huma.Param{Ref: "#/components/headers/Retry-After"}
		}
		for name, h := range r.Headers {
			headers[name] = h
		}
		r.Headers = headers
	}
}

// responseHeaders are the headers that many responses have.
func responseHeaders() map[string]*huma.Param {
	return map[string]*huma.Param{
		"X-Request-Id": {
			Description: "The request's id, also in the server's log: the one of the request's own X-Request-Id, if that is 1 to 64 letters, digits and . _ -",
			Schema:      &huma.Schema{Type: huma.TypeString},
		},
		"Retry-After": {
			Description: "After how many seconds the request can be repeated. Of 502 only sync_failed of a release has it.",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Format: "int32"},
		},
	}
}
