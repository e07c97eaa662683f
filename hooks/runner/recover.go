package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
)

// HasStarted reports whether a hook of the point has a record for the subject.
func (r *Runner) HasStarted(ctx context.Context, p hooks.Point, s Subject) (bool, error) {
	prior, err := r.priorRuns(ctx, p, s)
	return len(prior) > 0, err
}

// awaitIdle waits until no other hook runs in the container, or ends it if
// s.EndsOthers is set. Another server may end the claim, or begin to destroy the
// container, while a hook runs. The run is then recorded as Unknown, and only the
// container knows whether it has ended. awaitIdle starts nothing and changes no
// record. It returns an error if a record cannot be read, if the engine is
// unavailable, or if ctx ends.
func (r *Runner) awaitIdle(ctx context.Context, p hooks.Point, s Subject) error {
	runs, err := r.recorder.Runs(ctx, hooks.RunFilter{Container: s.Container, States: []hooks.RunState{hooks.Running, hooks.Unknown}, NoOutput: true})
	if err != nil {
		return fmt.Errorf("list the hook runs of the container: %w", err)
	}
	for _, run := range runs {
		if !run.Kind.Rule().InContainer || s.EndsOthers && run.Point == p {
			continue // nothing of it is in the container, or the point resumes it
		}
		// The file that the hook is from may be another one than the flow's.
		x, a := r.executors.Of(run.Kind), queryOf(hooks.Hook{Timeout: hooks.MaxTimeout}, run)
		var res Result
		if s.EndsOthers {
			res = endRun(ctx, x, a)
		} else {
			res = x.WaitResult(ctx, a)
		}
		if isUnavailable(res.Err) || ctx.Err() != nil {
			return fmt.Errorf("wait for hook %q of %s: %w", run.Hook, run.Occasion(), errors.Join(res.Err, context.Cause(ctx)))
		}
		if s.EndsOthers {
			if err := r.awaitRecord(ctx, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitRecordTimeout bounds how long a container that is destroyed by force waits until
// the end of a hook is on record. A flow of a terminated server may never record it.
const awaitRecordTimeout = 5 * time.Second

// awaitRecord waits until the end of a run that was ended is on record: if the server
// is killed before, the next one asks the container for it.
func (r *Runner) awaitRecord(ctx context.Context, run hooks.Run) error {
	for deadline := time.Now().Add(awaitRecordTimeout); ; {
		running, err := r.recorder.Runs(ctx, hooks.RunFilter{Container: run.Container, States: []hooks.RunState{hooks.Running}, NoOutput: true})
		if err != nil {
			return fmt.Errorf("list the running hooks of the container: %w", err)
		}
		isRun := func(other hooks.Run) bool { return other.ID == run.ID && other.Attempt == run.Attempt }
		if !slices.ContainsFunc(running, isRun) || time.Now().After(deadline) {
			return nil
		}
		if err := flow.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// MarkUnknown ends the unfinished runs with these ids as Unknown if their flows
// will not be resumed. None of them is run again.
func (r *Runner) MarkUnknown(ctx context.Context, ids []string, willResume func(context.Context, hooks.Run) (bool, error)) error {
	runs, err := r.recorder.Runs(ctx, hooks.RunFilter{States: []hooks.RunState{hooks.Running}})
	if err != nil {
		return fmt.Errorf("list the running hooks: %w", err)
	}
	for _, run := range runs {
		if !slices.Contains(ids, run.ID) {
			continue // another server's
		}
		resumes, err := willResume(ctx, run)
		if err != nil {
			return err
		}
		if resumes {
			continue
		}
		if _, err := r.end(ctx, hooks.Hook{}, run, Result{State: hooks.Unknown, Err: errNotResumed}); err != nil {
			return err
		}
	}
	return nil
}

// errNotResumed is recorded as the reason of an unknown outcome.
var errNotResumed = errors.New("the server stopped while it ran; its flow was abandoned")
