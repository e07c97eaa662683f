// Package flow runs the flows of Hostler: lists of steps that run in order, are
// timed, and are undone in reverse order when one fails.
//
// It promises that no step runs after a failed one, that the Undo of the failed
// step and of every completed step of its list is called once, last first, and
// that undo continues when the flow's context has ended.
package flow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Step is one step of a flow. Do must be safe if the process is killed at any
// line: it records what it intends first.
type Step struct {
	Name string
	// When reports whether the step runs. It is called at the step's turn. nil
	// means always. A skipped step has no timing.
	When func() bool
	// Waits is set for a step that waits for its caller's sake, before the work
	// begins. It gets the caller's context, and begins even if that has ended.
	Waits bool
	// Do runs the step. nil: it was done before the flow began, and the step is
	// listed for its Undo.
	Do func(ctx context.Context) error
	// Undo reverts Do, including a partial Do. nil: nothing to undo.
	Undo func(ctx context.Context, cause error) error
}

// ErrStop ends a list of steps without an error when Do returns it: no later
// step runs, and nothing is undone.
var ErrStop = errors.New("nothing left to do")

// Error is the error of a failed step. It wraps the step's own error, joined
// with the errors of undo.
type Error struct {
	Step string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Timings maps each step to its duration in milliseconds.
type Timings map[string]float64

// Observer follows the steps of flows.
type Observer interface {
	// StepStarted is called before a step runs. The step gets the returned
	// context, and end is called with its error when it has ended.
	StepStarted(ctx context.Context, flow, step string) (_ context.Context, end func(error))
}

// Flow is one execution of a flow. It is for one goroutine.
type Flow struct {
	// Timings are the durations so far. Those of a repeated step add up.
	Timings Timings
	// Observer, when not nil, follows the steps.
	Observer Observer

	name         string
	caller, work context.Context //nolint:containedctx // a flow exists for the call that they belong to
}

// New returns the execution of the named flow. Its steps run with the context
// work, and those that wait for the caller with the context caller.
func New(caller, work context.Context, name string) *Flow {
	return &Flow{Timings: Timings{}, name: name, caller: caller, work: work}
}

// Run runs a list of steps in order. When one fails, it undoes that step and
// those before it in the list, and returns an *Error. A flow may have several
// lists, and may run one again: a list is what is undone together.
func (f *Flow) Run(steps ...Step) error {
	for i, s := range steps {
		if s.When != nil && !s.When() {
			continue
		}
		err := f.runStep(s)
		if errors.Is(err, ErrStop) {
			return nil
		}
		if err != nil {
			undone := undo(context.WithoutCancel(f.work), steps[:i+1], err)
			return &Error{Step: s.Name, Err: errors.Join(err, undone)}
		}
	}
	return nil
}

func (f *Flow) runStep(s Step) (err error) {
	ctx := f.work
	if s.Waits {
		ctx = f.caller
	} else if err := context.Cause(ctx); err != nil {
		return err
	}
	Failpoint(f.name, s.Name, "before")
	start := time.Now()
	if f.Observer != nil {
		observed, end := f.Observer.StepStarted(ctx, f.name, s.Name)
		ctx = observed
		defer func() { end(err) }()
	}
	if s.Do != nil {
		err = s.Do(ctx)
	}
	Failpoint(f.name, s.Name, "after")
	f.Timings[s.Name] += float64(time.Since(start).Microseconds()) / 1000
	return err
}

// Run runs the named flow, which has one list of steps.
func Run(ctx context.Context, name string, steps ...Step) error {
	return New(ctx, ctx, name).Run(steps...)
}

// undo calls the Undo of the steps, last first, and joins their errors.
func undo(ctx context.Context, steps []Step, cause error) error {
	var errs error
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Undo == nil {
			continue
		}
		if err := steps[i].Undo(ctx, cause); err != nil {
			errs = errors.Join(errs, fmt.Errorf("undo %s: %w", steps[i].Name, err))
		}
	}
	return errs
}
