package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/hooks"
)

// trail records the attempts of one point. Where one hook follows another at once,
// the end of the first and the start of the second are written together: a list of
// n hooks costs n+1 commits, and not 2n.
type trail struct {
	runner *Runner
	// hasNext reports whether another hook of the point follows the one that runs.
	hasNext bool
	// held is the attempt whose end is not written yet, or nil. Its action has
	// succeeded. If the server is killed here, it is resumed like one that was killed
	// just before: the result is queried.
	held *hooks.Run
}

// start records the start of an attempt, with the end of the one before if that is
// held.
func (t *trail) start(ctx context.Context, run hooks.Run) error {
	recorder := t.runner.recorder
	if t.held != nil && recorder.RunFollowed(ctx, *t.held, run) == nil {
		t.held = nil
		return nil
	}
	// Each by itself: the end is recorded also where the start is refused.
	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := recorder.RunStarted(ctx, run); err != nil {
		return fmt.Errorf("record the start of hook %q: %w", run.Hook, err)
	}
	return nil
}

// end records the end of an attempt, or holds it for start or flush, one of which
// must follow at once. failure is why the action has no result. It returns an error
// if the container is tainted or the record cannot be written.
func (t *trail) end(ctx context.Context, run hooks.Run, failure error) error {
	t.held = &run
	if t.hasNext && run.State == hooks.Succeeded && !run.Stopped {
		return nil
	}
	if err := t.flush(ctx); err != nil {
		return errors.Join(err, failure)
	}
	return taintedError(run, failure)
}

// flush records the end that is held, if any.
func (t *trail) flush(ctx context.Context) error {
	if t.held == nil {
		return nil
	}
	run := *t.held
	t.held = nil
	if err := t.runner.recordEnd(ctx, run); err != nil {
		return fmt.Errorf("record the end of hook %q: %w", run.Hook, err)
	}
	return nil
}

// recordTimeout limits how long recording the end of an attempt may take.
const recordTimeout = 30 * time.Second

// recordEnd records the outcome and retries until recordTimeout: a full disk
// must not turn a known outcome into an unknown one.
func (r *Runner) recordEnd(ctx context.Context, run hooks.Run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	for retries := retryDelay.Retries(); ; {
		err := r.recorder.RunEnded(ctx, run)
		if err == nil || retries.Sleep(ctx) != nil {
			return err
		}
	}
}
