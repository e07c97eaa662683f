// Package flow runs the flows of Hostler: lists of steps that run in order, are
// timed, and are undone in reverse order when one fails.
//
// It promises that no step runs after a failed one, that the Undo of the failed
// step and of every completed step is called once, last first, and that undo
// continues when the flow's context has ended.
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
	// Do runs the step.
	Do func(ctx context.Context) error
	// Undo reverts Do, including a partial Do. nil: nothing to undo.
	Undo func(ctx context.Context, cause error) error
}

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

// Run runs the steps of the named flow in order. It returns the duration of
// each step, including a failed one, and an *Error when one failed.
func Run(ctx context.Context, name string, steps ...Step) (Timings, error) {
	timings := make(Timings, len(steps))
	for i, s := range steps {
		if s.When != nil && !s.When() {
			continue
		}
		err := context.Cause(ctx)
		if err == nil {
			Failpoint(name, s.Name, "before")
			start := time.Now()
			err = s.Do(ctx)
			Failpoint(name, s.Name, "after")
			timings[s.Name] = float64(time.Since(start).Microseconds()) / 1000
		}
		if err != nil {
			undone := undo(context.WithoutCancel(ctx), steps[:i+1], err)
			return timings, &Error{Step: s.Name, Err: errors.Join(err, undone)}
		}
	}
	return timings, nil
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
