// Package gate decides what tenants may do in their containers: it implements
// access.Gates with the hooks of a workload's gates.
//
// It promises that a use is permitted only if every hook of its gate permits it. A
// builtin permits by returning without an error, a request by a 2xx response with
// {"decision": "allow"}. Everything else refuses: a failure, a timeout, a panic, an
// answer that cannot be read, a missing secret, a workload that cannot be read.
//
// The hooks are those of the workload as it is applied now. Refusals are recorded as
// runs of hooks, at a bounded rate; what is permitted is not recorded.
package gate

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// Revisions has the workloads of containers. It is a pool.Catalog.
type Revisions interface {
	Revision(ctx context.Context, id, revision string) (*workload.Workload, pool.Record, error)
}

// Options are what a Service is made of.
type Options struct {
	Revisions Revisions
	// Attempt returns the attempt of a hook (runner.Runner.EventAttempt).
	Attempt func(ctx context.Context, h hooks.Hook, run hooks.Run, w *workload.Workload, e runner.Envelope) (runner.Attempt, error)
	// Executors perform requests, Builtins calls functions.
	Executors runner.Executors
	Builtins  builtin.Executor
	// Redact removes the secrets of the server from a text. AddSecrets has it know those
	// of a workload.
	Redact     func(text string) string
	AddSecrets func(declared map[string]hooks.Secret)
	// Record records a refusal. It is called at a bounded rate.
	Record func(ctx context.Context, r hooks.Run) error
	// OnRefused is called with every refusal.
	OnRefused func(r hooks.Run)
	Log       *slog.Logger
}

// Service decides. It is safe for concurrent use.
type Service struct {
	o       Options
	slots   slots
	records allowances
}

var _ access.Gates = (*Service)(nil)

// New returns a Service.
func New(o Options) *Service {
	return &Service{o: o, slots: newSlots(maxChecks, maxChecksOfClaim), records: allowances{now: time.Now}}
}

// Exec implements access.Gates.
func (s *Service) Exec(ctx context.Context, g access.Grant, c access.CommandUse) error {
	_, err := s.check(ctx, hooks.ExecBefore, g, func() use { return s.ofCommand(c) })
	return err
}

// File implements access.Gates.
func (s *Service) File(ctx context.Context, g access.Grant, f access.FileUse) (within []string, err error) {
	return s.check(ctx, hooks.FileBefore, g, func() use { return s.ofFile(f) })
}

// Request implements access.Gates.
func (s *Service) Request(ctx context.Context, g access.Grant, r access.PortUse) error {
	_, err := s.check(ctx, hooks.RequestBefore, g, func() use { return s.ofRequest(r) })
	return err
}

// check asks the hooks of a gate one after another.
func (s *Service) check(ctx context.Context, gate hooks.Gate, g access.Grant, describe func() use) ([]string, error) {
	w, err := s.workload(ctx, g)
	if err != nil {
		s.o.Log.Error("gate has no workload", "gate", gate, "workload", g.Claim.Workload, "claim", g.Claim.ID, "error", err)
		return nil, &access.DeniedError{Gate: string(gate), Message: "the hooks of the workload could not be read"}
	}
	list := enabled(w.Gates[gate])
	if len(list) == 0 {
		return nil, nil
	}
	release, err := s.slots.acquire(ctx, g.Claim.ID, list[0].Timeout)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("wait for %s: %w", gate, context.Cause(ctx))
	}
	if err != nil {
		run := newRun(gate, list[0], 0, g, w)
		return nil, s.refuse(ctx, run, answer{state: hooks.Failed, err: err, message: couldNot + err.Error()})
	}
	defer release()
	if s.o.AddSecrets != nil {
		s.o.AddSecrets(w.Secrets) // before anything is described
	}
	var within []string
	u := describe()
	for i, h := range list {
		run := newRun(gate, h, i, g, w)
		a := s.ask(ctx, h, run, w, u)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask %s: %w", gate, context.Cause(ctx))
		}
		if a.isAllowed && len(a.within) > 0 {
			within, a = narrow(within, a)
		}
		if !a.isAllowed {
			return nil, s.refuse(ctx, run, a)
		}
	}
	return within, nil
}

// workload returns the workload whose hooks decide. That of a container outlives the
// record of what is applied.
func (s *Service) workload(ctx context.Context, g access.Grant) (*workload.Workload, error) {
	if g.Workload != nil {
		return g.Workload, nil
	}
	w, _, err := s.o.Revisions.Revision(ctx, g.Claim.Workload, g.Claim.Revision)
	if err == nil && w == nil {
		err = pool.ErrWorkloadNotFound
	}
	return w, err
}

func enabled(list []hooks.Hook) []hooks.Hook {
	var on []hooks.Hook
	for _, h := range list {
		if !h.Disabled {
			on = append(on, h)
		}
	}
	return on
}

// newRun returns the record of a check, should it refuse.
func newRun(gate hooks.Gate, h hooks.Hook, index int, g access.Grant, w *workload.Workload) hooks.Run {
	return hooks.Run{
		ID: uuid.Must(uuid.NewV7()).String(), Attempt: 1, Point: hooks.Point(gate), Hook: h.Name, Index: index,
		Kind: h.Action.Kind(), Command: h.Action.Summary(), File: w.File, StartedAt: time.Now(),
		Workload: g.Claim.Workload, Container: g.Claim.Container, Claim: g.Claim.ID, Tenant: g.Claim.Tenant,
	}
}

// answer is what a hook has decided.
type answer struct {
	isAllowed bool
	within    []string

	// Of a refusal: its state, why there is no decision, and what the tenant reads.
	state   hooks.RunState
	err     error
	message string
	detail  hooks.Detail
}

// couldNot begins what a tenant reads if a hook has not decided. The reason, which may
// have names of the operator's network, is in the record.
const couldNot = "it could not decide: "

// failures are what a tenant reads of the states of attempts that have not decided.
var failures = map[hooks.RunState]string{
	hooks.TimedOut: "it took too long", hooks.StartFailed: "it could not be asked", hooks.Failed: "it failed",
	hooks.Cancelled: "it was ended",
}

// undecided returns the refusal of a hook without a decision.
func undecided(res runner.Result) answer {
	text, ok := failures[res.State]
	if !ok {
		text = "it failed"
	}
	if res.State == hooks.Succeeded {
		res.State = hooks.Failed
	}
	return answer{state: res.State, err: res.Err, message: couldNot + text, detail: res.Detail}
}

// ask performs one attempt of a hook. A panic refuses.
func (s *Service) ask(ctx context.Context, h hooks.Hook, run hooks.Run, w *workload.Workload, u use) (a answer) {
	defer func() {
		if cause := recover(); cause != nil {
			s.o.Log.Error("gate panicked", "gate", run.Point, "hook", h.Name, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			a = undecided(runner.Result{State: hooks.Failed, Err: fmt.Errorf("panic: %v", cause)})
		}
	}()
	building, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	attempt, err := s.attempt(building, h, run, w, u)
	if err != nil {
		return undecided(runner.Result{State: hooks.StartFailed, Err: err})
	}
	if !h.Condition.Holds(attempt.Lookup) {
		return answer{isAllowed: true}
	}
	attempt.Timeout = max(time.Millisecond, h.Timeout-time.Since(run.StartedAt))
	switch action := attempt.Action.(type) {
	case hooks.Builtin:
		return s.call(ctx, attempt, u, w)
	case hooks.Request:
		attempt.Action = asking(action)
		return judge(s.o.Executors.Of(hooks.KindHTTP).Execute(ctx, attempt))
	}
	return undecided(runner.Result{State: hooks.StartFailed, Err: fmt.Errorf("actions of kind %q cannot be at a gate", run.Kind)})
}

// call calls a function. Its error is the decision.
func (s *Service) call(ctx context.Context, attempt runner.Attempt, u use, w *workload.Workload) answer {
	judged := u.judged
	judged.Workspace = w.ScriptDir()
	res, within := s.o.Builtins.Check(ctx, attempt, &judged)
	switch {
	case res.State == hooks.Succeeded && res.Err == nil:
		return answer{isAllowed: true, within: within}
	case res.State == hooks.Failed && res.Err != nil:
		return answer{state: hooks.Failed, message: res.Err.Error()}
	}
	return undecided(res)
}

// recordTimeout bounds how long a refused request waits for its record.
const recordTimeout = 5 * time.Second

// refuse records a refusal and returns its error.
func (s *Service) refuse(ctx context.Context, run hooks.Run, a answer) error {
	denied := &access.DeniedError{Gate: string(run.Point), Hook: run.Hook, Message: clean(a.message)}
	now := time.Now()
	run.State, run.EndedAt, run.Duration = a.state, &now, float64(now.Sub(run.StartedAt).Microseconds())/1000
	run.Detail = a.detail
	run.Decision, run.Response, run.Error = hooks.Deny, "", denied.Message
	if a.err != nil {
		run.Error = a.err.Error()
	}
	if s.o.OnRefused != nil {
		s.o.OnRefused(run)
	}
	if s.o.Record == nil || !s.records.take(run.Claim) {
		return denied
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.o.Record(ctx, run); err != nil {
		s.o.Log.Error("recording a refusal failed", "gate", run.Point, "hook", run.Hook, "claim", run.Claim, "error", err)
	}
	return denied
}
