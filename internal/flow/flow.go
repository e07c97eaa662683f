// Package flow runs the flows of Hostler: lists of steps, done in order, each
// timed, undone in reverse when one fails.
//
// It promises that after a step has failed no later step is done, that the
// Undo of every step that was done, and of the one that failed, has been
// called once, last first, and that undoing goes on when the flow's context
// has ended.
package flow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Step is one thing that a flow does. Do must be safe to be cut off at any
// line by the death of the process: what it intends is recorded before.
type Step struct {
	Name string
	// When says whether there is anything to do, at its turn. Without it there
	// is. A step that is left out has no timing.
	When func() bool
	// Do does it.
	Do func(ctx context.Context) error
	// Undo takes back what Do did, or may have half done. nil: nothing to undo.
	Undo func(ctx context.Context, cause error) error
}

// Error says which step failed. It unwraps to the step's own error; what went
// wrong while undoing is joined to it.
type Error struct {
	Step string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Timings are the milliseconds that each step took.
type Timings map[string]float64

// Run does the steps of the flow of that name in order. It returns how long
// each took, those undone included, and an *Error when one failed.
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

// undo calls the Undo of the steps, last first, and joins what they say.
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
