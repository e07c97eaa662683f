package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/runtime"
)

// Executor performs the actions of one kind. It is safe for concurrent use.
type Executor interface {
	// Execute performs an attempt. It returns when everything that the attempt
	// started has ended, or when that cannot be confirmed. If ctx ends first, it
	// ends the attempt.
	Execute(ctx context.Context, a Attempt) Result
	// WaitResult waits for the result of an Execute of the same attempt, perhaps
	// by an earlier server, and starts nothing.
	WaitResult(ctx context.Context, a Attempt) Result
	// Ending returns what the record of an ended attempt means for the policy of
	// its hook.
	Ending(r hooks.Run) Ending
}

// Attempt is what an executor knows about one execution of a hook.
type Attempt struct {
	Context
	Action  hooks.Action
	Timeout time.Duration
	Fence   int64 // of the flow; only for Execute, and with MayAsk
	// MayAsk is that of Subject.
	MayAsk bool
	// Lookup supplies the variables of templates except secrets, Envelope is the
	// JSON that describes what happened, and Secrets are those that the workload
	// declares; only for Execute.
	Lookup   variables.Lookup
	Envelope []byte
	Secrets  map[string]hooks.Secret
	// Parameters and Sealed are those of Subject. What performs the attempt gets the
	// values of secret ones from Sealed (see Open), which Sensitive then has too: they
	// must be in nothing that it returns.
	Parameters, Sealed map[string]string
	Sensitive          []string
}

// Context describes an attempt to its action. Each executor renders it in its
// own form.
type Context struct {
	Run       string // the same for all attempts
	Attempt   int    // from 1
	Hook      string
	Point     hooks.Point
	Event     string // the type of the event, of an event hook
	Workload  string
	Container string
	Claim     string // empty outside a claim
	Tenant    string // empty outside a claim
	Source    string // of the claim: fresh, affinity or recycled; only for Execute
	// Traceparent is that of Subject; only for Execute.
	Traceparent string
}

// ID returns an id that is unique to the attempt.
func (c Context) ID() string { return hooks.AttemptID(c.Run, c.Attempt) }

// queryOf returns the attempt of a record for WaitResult and Ending.
func queryOf(h hooks.Hook, r hooks.Run) Attempt {
	return Attempt{
		Action: h.Action, Timeout: h.Timeout,
		Context: Context{
			Run: r.ID, Attempt: r.Attempt, Hook: r.Hook, Point: r.Point, Event: r.Event, Workload: r.Workload,
			Container: r.Container, Claim: r.Claim, Tenant: r.Tenant,
		},
	}
}

// Result is how an attempt ended.
type Result struct {
	State hooks.RunState // a final one, not Skipped
	// Err is why the action has no result. It matches runtime.ErrTainted if a
	// process of the attempt may still run: the container must be destroyed. It
	// matches runtime.ErrUnavailable if a later WaitResult may have a result.
	Err    error
	Detail hooks.Detail
	Stdout runtime.Output
	Stderr runtime.Output
	// Captured has the values that the action captured, by name. They are
	// untrusted.
	Captured map[string]string
	// Warnings are what the author of the hook should know although the attempt was
	// performed: variables that were empty, values that were not captured.
	Warnings []string
	// Stop reports whether the point ends as a success without the hooks that
	// follow. RetryAfter is when the receiver permits another attempt; 0: now.
	Stop       bool
	RetryAfter time.Duration
	// Gone reports whether nothing of the attempt is left, also if its outcome is
	// unknown: an idempotent hook may then run again.
	Gone bool
}

// Ended returns the record of an attempt with its result.
func Ended(r hooks.Run, res Result, now time.Time) hooks.Run {
	r.EndedAt, r.Duration = &now, float64(now.Sub(r.StartedAt).Microseconds())/1000
	r.State, r.Detail, r.Warnings, r.Values = res.State, res.Detail, res.Warnings, res.Captured
	r.Stdout, r.Stderr = res.Stdout, res.Stderr
	if res.Err != nil {
		r.Error, r.ErrorChain = rootcause.Of(res.Err)
	}
	return r
}

// EndedAtPoint is Ended for a hook at a point: it may end the point as a success.
func EndedAtPoint(h hooks.Hook, r hooks.Run, res Result, now time.Time) hooks.Run {
	r = Ended(r, res, now)
	if stops(h, res) {
		r.State, r.Stopped = hooks.Succeeded, true
	}
	return r
}

// isUnavailable reports whether the engine is unavailable, so a later query may
// have a result.
func isUnavailable(err error) bool {
	return errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, runtime.ErrTainted)
}

// Ending is what a policy needs to know about an attempt that did not succeed.
type Ending struct {
	MayRetry    bool // another attempt may end differently
	MayContinue bool // nothing of it is left, and the next hook can run
	// Harmless reports whether it changes nothing: it may run again if its outcome
	// is unknown, like an idempotent hook.
	Harmless bool
}

// Executors are the executors by kind.
type Executors map[hooks.Kind]Executor

// Of returns the executor of a kind. A panic of it is a result.
func (e Executors) Of(k hooks.Kind) Executor {
	if x, ok := e[k]; ok {
		return recovering{x, k}
	}
	return unsupported{k}
}

// recovering is an executor that may panic. The outcome is then unknown, and
// nothing confirms that an attempt in the container has ended.
type recovering struct {
	Executor
	kind hooks.Kind
}

func (x recovering) Execute(ctx context.Context, a Attempt) (res Result) {
	defer x.recover(&res)
	return x.Executor.Execute(ctx, a)
}

func (x recovering) WaitResult(ctx context.Context, a Attempt) (res Result) {
	defer x.recover(&res)
	return x.Executor.WaitResult(ctx, a)
}

// recover is deferred.
func (x recovering) recover(res *Result) {
	p := recover()
	if p == nil {
		return
	}
	*res = Result{State: hooks.Unknown, Err: fmt.Errorf("panic: %v", p)}
	if x.kind.Rule().InContainer {
		res.Err = fmt.Errorf("%w: %w", runtime.ErrTainted, res.Err)
	}
}

// unsupported is the executor of a kind that this server does not have.
type unsupported struct{ kind hooks.Kind }

func (u unsupported) Execute(context.Context, Attempt) Result {
	return Result{State: hooks.StartFailed, Err: u.err()}
}

func (u unsupported) WaitResult(context.Context, Attempt) Result {
	return Result{State: hooks.Unknown, Err: u.err()}
}

func (unsupported) Ending(hooks.Run) Ending { return Ending{} }

func (u unsupported) err() error { return fmt.Errorf("actions of kind %q are not supported", u.kind) }
