package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/runtime"
)

// Caller is who asks.
type Caller struct {
	Claim, Workload, Tenant, Container string
	// Run is the id of the attempt of a hook, or of another command of the server,
	// whose process asks; empty for all other processes.
	Run string
	// FromHook reports whether a process of such a command asks. Run may be unknown.
	FromHook bool
	// Request is the program's ID of the request. A repeated request has the same:
	// what was done for the first one is not done again.
	Request string
}

// Handler handles a request: it decodes the body and returns the response, which
// is encoded as JSON. respond answers before the handler returns; then its result
// counts for the log only.
type Handler func(ctx context.Context, c Caller, body []byte, respond func(response any)) (any, error)

// Request is a row of the table of requests.
type Request struct {
	Name   string
	Handle Handler
	// HooksMay reports whether a process of a command that the server has started,
	// such as a hook, may ask for it.
	HooksMay bool
	// Once is for a handler that does something else when it is called again. This
	// server then calls it once for each Caller.Request. It must not use respond.
	Once bool
}

// ErrPending means that a request is in progress: the program sends it again at once,
// with the same ID. A handler returns it before its context ends.
var ErrPending = errors.New("the request is in progress")

// ErrInvalid means that a request is malformed.
var ErrInvalid = errors.New("invalid request")

// Of returns the handler for a function that takes a decoded body.
func Of[B, R any](f func(ctx context.Context, c Caller, body B) (R, error)) Handler {
	return func(ctx context.Context, c Caller, body []byte, _ func(any)) (any, error) {
		var b B
		if err := decode(body, &b); err != nil {
			return nil, err
		}
		return f(ctx, c, b)
	}
}

// ForClaim is Of for a function that needs only the claim of the caller.
func ForClaim[B, R any](f func(ctx context.Context, claim string, body B) (R, error)) Handler {
	return Of(func(ctx context.Context, c Caller, body B) (R, error) { return f(ctx, c.Claim, body) })
}

// decode parses a body. It is JSON without unknown fields.
func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: the body is not as expected: %w", ErrInvalid, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is something after the body", ErrInvalid)
	}
	return nil
}

// Claims finds claims. Package store implements it.
type Claims interface {
	Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error)
}

// Service answers requests.
type Service struct {
	claims   Claims
	requests map[string]Request
	describe func(ctx context.Context, err error) runtime.Problem
	log      *slog.Logger
	once     once
}

// Forget drops what the service keeps of a claim that has ended.
func (s *Service) Forget(claim string) { s.once.forget(claim) }

// NewService returns a service with a table of requests. describe returns an
// error as the program sees it, and logs what it leaves out.
func NewService(claims Claims, table []Request, describe func(context.Context, error) runtime.Problem, log *slog.Logger) *Service {
	s := &Service{claims: claims, requests: make(map[string]Request), describe: describe, log: log}
	for _, r := range append([]Request{{Name: "claim", Handle: Of(describeCaller), HooksMay: true}}, table...) {
		s.requests[r.Name] = r
	}
	return s
}

// Identity is the response to the request claim.
type Identity struct {
	Claim     string `json:"claim"`
	Workload  string `json:"workload"`
	Container string `json:"container"`
	Tenant    string `json:"tenant"`
}

// describeCaller is the request claim.
func describeCaller(_ context.Context, c Caller, _ struct{}) (Identity, error) {
	return Identity{Claim: c.Claim, Workload: c.Workload, Container: c.Container, Tenant: c.Tenant}, nil
}

// Handle answers a request of a container with an active claim. It is the handler of
// its sessions.
func (s *Service) Handle(ctx context.Context, container string, r runtime.Request, respond func(runtime.Response)) {
	s.handle(ctx, asker{container: container, states: []claim.State{claim.Active}, once: &s.once}, r, respond)
}

// OfHook returns the handler of the requests of one command: that of a hook of a
// claim that is pending or releasing, of which no other process may ask.
func (s *Service) OfHook(id, container string) runtime.RequestHandler {
	by := asker{claim: id, container: container, states: []claim.State{claim.Pending, claim.Releasing}, once: new(once)}
	return func(ctx context.Context, r runtime.Request, respond func(runtime.Response)) {
		r.FromHook = true
		s.handle(ctx, by, r, respond)
	}
}

// asker is whose processes send a request.
type asker struct {
	claim     string // "": that of the container
	container string
	states    []claim.State // of the claim
	once      *once         // what is kept of the requests
}

// handle answers a request.
func (s *Service) handle(ctx context.Context, by asker, r runtime.Request, respond func(runtime.Response)) {
	defer s.recoverPanic(by.container, r.Name, respond)
	row, ok := s.requests[r.Name]
	switch {
	case !ok:
		respond(problem(runtime.ProblemUnsupported, fmt.Sprintf("this server knows no request %q", r.Name)))
		return
	case r.FromHook && !row.HooksMay:
		respond(problem(runtime.ProblemDenied, fmt.Sprintf("a hook may not ask for %s", r.Name)))
		return
	}
	caller, err := s.caller(ctx, by, r)
	if err != nil {
		respond(s.problemOf(ctx, err))
		return
	}
	ctx = activity.WithActor(ctx, activity.Actor{Name: "claim:" + caller.Claim})
	if row.Once {
		respond(by.once.do(ctx, caller, contentOf(r), func() runtime.Response {
			response, err := row.Handle(ctx, caller, r.Body, nil)
			if err != nil {
				return s.problemOf(ctx, err)
			}
			return encode(response)
		}))
		return
	}
	answered := false
	response, err := row.Handle(ctx, caller, r.Body, func(early any) {
		answered = true
		respond(encode(early))
	})
	switch {
	case answered && err != nil:
		s.log.Warn("request of a container failed after it was answered", "request", r.Name, "claim", caller.Claim, "error", err)
	case answered:
	case err != nil:
		respond(s.problemOf(ctx, err))
	default:
		respond(encode(response))
	}
}

// recoverPanic is deferred. A panic is a failure of its request: all tenants share
// this server. Nothing is sent if the request was answered.
func (s *Service) recoverPanic(container, request string, respond func(runtime.Response)) {
	if p := recover(); p != nil {
		s.log.Error("panic in a request of a container", "request", request, "container", container, "panic", p, "stack", string(debug.Stack()))
		respond(problem(runtime.ProblemFailed, "the request failed"))
	}
}

// errNoClaim means that the claim of a request is not active, or not any more.
var errNoClaim = errors.New("the container has no active claim, or has got another one")

// caller returns who asks: the claim of the container, if the container had its
// fence when it received the request.
func (s *Service) caller(ctx context.Context, by asker, r runtime.Request) (Caller, error) {
	found, err := s.claims.Claims(ctx, claim.Filter{Container: by.container, States: by.states})
	if err != nil {
		return Caller{}, err
	}
	for _, c := range found {
		if by.claim != "" && c.ID != by.claim {
			continue
		}
		if c.ContainerFence == r.Fence {
			return Caller{Claim: c.ID, Workload: c.Workload, Tenant: c.Tenant, Container: by.container, Run: r.RunID, FromHook: r.FromHook, Request: r.ID}, nil
		}
	}
	return Caller{}, errNoClaim
}

// problemOf returns the problem for an error.
func (s *Service) problemOf(ctx context.Context, err error) runtime.Response {
	switch {
	case errors.Is(err, ErrPending):
		return problem(runtime.ProblemPending, err.Error())
	case ctx.Err() != nil: // the session or this server ends: the program asks again
		return problem(runtime.ProblemUnavailable, "the request was interrupted")
	case errors.Is(err, errNoClaim):
		return problem(runtime.ProblemNoClaim, err.Error())
	case errors.Is(err, ErrInvalid):
		return problem(runtime.ProblemInvalid, err.Error())
	}
	p := s.describe(ctx, err)
	return problem(p.Code, p.Detail)
}

// maxDetail bounds the detail of a problem, in bytes. It may quote a request, and
// responses are kept.
const maxDetail = 1 << 10

func problem(code runtime.ProblemCode, detail string) runtime.Response {
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "")
	}
	return runtime.Response{Problem: &runtime.Problem{Code: code, Detail: detail}}
}

// encode returns a response. It does not escape HTML, which would make it longer.
func encode(response any) runtime.Response {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(response); err != nil {
		return problem(runtime.ProblemFailed, "the response cannot be encoded")
	}
	return runtime.Response{Body: bytes.TrimSpace(b.Bytes())}
}
