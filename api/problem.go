package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

const problemType = "application/problem+json"

// maxErrors bounds the errors in a request that its problem has.
const maxErrors = 20

// Problem is an error response (RFC 9457).
type Problem struct {
	Type             string                     `json:"type" doc:"The code as a URN." example:"urn:hostler:problem:pool_exhausted"`
	Title            string                     `json:"title" doc:"The same for all problems of this code."`
	Status           int                        `json:"status" doc:"The HTTP status."`
	Code             Code                       `json:"code" doc:"The kind of error, for programs." example:"pool_exhausted"`
	Detail           string                     `json:"detail" doc:"A description of this error, for display."`
	Instance         string                     `json:"instance" doc:"The id of the request; it is in the server's log."`
	Reason           string                     `json:"reason,omitempty" doc:"The reason of pool_exhausted and pool_not_ready is exhausted, not_ready, fill_failing, draining or deleting. The reason of sync_failed is terminating, sink, credentials, too_large, tenant, stale, conflict, damaged, unknown_format, unknown_key or not_allowed. The reason of command_not_started is binary_not_found, not_executable, user_not_found, workdir_not_found, bad_input, unsupported or start_failed. The reason of denied_by_hook is the hook."`
	Claim            string                     `json:"claim,omitempty" doc:"The claim that failed, or could not be released."`
	Dropped          int64                      `json:"dropped,omitempty" doc:"Of rate_limited, of an event: how many events of the claim were dropped so far."`
	Quota            string                     `json:"quota,omitempty" doc:"Of quota_exceeded, and of rate_limited by a quota: which one." example:"tenant acme: live claims"`
	Limit            *int64                     `json:"limit,omitempty" doc:"Of the quota."`
	Current          *int64                     `json:"current,omitempty" doc:"Of quota_exceeded: what is used."`
	Step             string                     `json:"step,omitempty" doc:"The step at which the claim failed."`
	CurrentVersion   *int64                     `json:"current_version,omitempty" doc:"Of version_conflict: the version that the value has; 0 when there is none."`
	Run              *hooks.Run                 `json:"run,omitempty" doc:"Of hook_failed: the attempt that failed, with its output."`
	ValidationErrors []workload.ValidationError `json:"errors,omitempty" doc:"The errors in the request or the file."`

	retry time.Duration // for Retry-After
	allow string        // for Allow
	size  string        // of a file, for Content-Range
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the problem.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.size != "" {
		h.Set("Content-Range", "bytes */"+p.size)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="hostler"`)
	}
	return h
}

// ContentType returns the content type of problems.
func (p *Problem) ContentType(string) string { return problemType }

// newProblem returns the problem of a code. The caller may set a more specific
// status: malformed JSON is a 400 where an invalid value is a 422.
func newProblem(ctx context.Context, code Code, detail string) *Problem {
	row := statuses[code]
	return &Problem{
		Type: "urn:hostler:problem:" + string(code), Title: row.title, Status: row.status,
		Code: code, Detail: detail, Instance: requestID(ctx),
	}
}

// problem turns an error into its problem. The text of an error that is in no
// table is logged here and not sent, and neither is the database's address.
func (a *API) problem(ctx context.Context, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if cause := credentialEnd(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, cause)) {
		err = cause
	}
	var extra Problem
	code := a.classify(err, &extra)
	p := newProblem(ctx, code, err.Error())
	p.Dropped, p.Quota, p.Limit, p.Current = extra.Dropped, extra.Quota, extra.Limit, extra.Current
	p.Reason, p.Claim, p.Step, p.Run, p.ValidationErrors, p.retry, p.CurrentVersion = extra.Reason, extra.Claim, extra.Step, extra.Run, extra.ValidationErrors, extra.retry, extra.CurrentVersion
	if code == Internal {
		extra.Detail = "The server's log has the details, under the request id " + p.Instance + "."
	}
	hideQuota(ctx, err, p)
	if extra.Detail != "" {
		a.o.Log.ErrorContext(ctx, "request failed", "request", p.Instance, "error", err)
		p.Detail = extra.Detail
	}
	return p
}

// Describe returns an error as a program in a container sees it. The text of an
// error that is not the program's own may be about others. That the database is
// unavailable is not logged: programs ask again many times a second, and whatever
// else the server does reports it.
func (a *API) Describe(ctx context.Context, err error) runtime.Problem {
	if a.storageUnavailable(err) != nil {
		return runtime.Problem{Code: runtime.ProblemUnavailable, Detail: statuses[StorageUnavailable].title}
	}
	p := a.problem(ctx, err)
	switch {
	case p.Status == http.StatusServiceUnavailable:
		return runtime.Problem{Code: runtime.ProblemUnavailable, Detail: p.Title}
	case p.Code == Internal:
		return runtime.Problem{Code: runtime.ProblemFailed, Detail: p.Title}
	case p.Status >= http.StatusInternalServerError:
		return runtime.Problem{Code: runtime.ProblemCode(p.Code), Detail: p.Title}
	}
	return runtime.Problem{Code: runtime.ProblemCode(p.Code), Detail: p.Detail}
}

// invalidf returns the error of an invalid request, with a description.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errInvalid}, args...)...)
}

// codeByStatus maps the statuses of errors that are found before a handler is
// called.
var codeByStatus = map[int]Code{
	http.StatusBadRequest:           InvalidRequest,
	http.StatusUnprocessableEntity:  InvalidRequest,
	http.StatusUnsupportedMediaType: UnsupportedMediaType,
}

// mapErrors is the transformer that turns huma's errors into problems.
func (a *API) mapErrors(ctx huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	code, known := codeByStatus[e.Status]
	if !known {
		return a.problem(ctx.Context(), e), nil
	}
	p := newProblem(ctx.Context(), code, e.Detail)
	p.Status = e.Status
	// Those of unknown parameters have the random order of a map.
	slices.SortStableFunc(e.Errors, func(a, b *huma.ErrorDetail) int { return cmp.Compare(a.Location, b.Location) })
	var details []string
	add := func(field, message string) {
		v := workload.ValidationError{Field: fmt.Sprintf("%.200s", field), Message: fmt.Sprintf("%.500s", message)}
		p.ValidationErrors = append(p.ValidationErrors, v)
		details = append(details, strings.TrimPrefix(v.Field+": "+v.Message, ": "))
	}
	for _, d := range e.Errors[:min(len(e.Errors), maxErrors)] {
		if d.Message == validation.MsgExpectedMatchExactlyOneSchema { // only that of Duration has several
			d.Message = durationForms
		}
		add(d.Location, d.Message)
	}
	if more := len(e.Errors) - maxErrors; more > 0 {
		add("", fmt.Sprintf("%d more errors", more))
	}
	if len(details) > 0 {
		p.Detail = strings.Join(details, "; ")
	}
	if e.Status == http.StatusUnsupportedMediaType {
		p.Detail += ": send Content-Type: application/json"
	}
	return p, nil
}

// write sends a problem outside of huma.
func (p *Problem) write(w http.ResponseWriter) {
	for k, v := range p.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) //nolint:errcheck,errchkjson // the client has disconnected
}
