package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// resumeTimeout is how much longer than its timeout the outcome of an attempt is
// asked for: an engine may be on its way up, as this server is.
const resumeTimeout = 5 * time.Minute

// priorRuns lists what has been recorded of a point already, by the hooks' places
// and in the order of the attempts. Of a new flow there is nothing.
func (r *Runner) priorRuns(ctx context.Context, p Point, s Subject) (map[int][]Run, error) {
	if s.NoPriorRuns {
		return nil, nil
	}
	runs, err := r.recorder.Runs(ctx, RunFilter{Container: s.Container, Claim: s.Claim, Point: p})
	if err != nil {
		return nil, fmt.Errorf("look up what has run at %s: %w", p, err)
	}
	prior := make(map[int][]Run, len(runs))
	for _, run := range runs {
		prior[run.Index] = append(prior[run.Index], run)
	}
	return prior, nil
}

// HasStarted says whether a hook of the point has been begun for the subject.
func (r *Runner) HasStarted(ctx context.Context, p Point, s Subject) (bool, error) {
	prior, err := r.priorRuns(ctx, p, s)
	return len(prior) > 0, err
}

// resume ends an attempt that was begun before, if it has not ended, with what
// the container says has become of it. It is never begun again.
//
// Where repeat is set it says whether another attempt may follow one whose end
// nobody knows: only when the container answers that nothing of it is left. The
// record does not tell what was out of control from what was merely lost sight
// of, so the container is asked once more, and tells.
func (r *Runner) resume(ctx context.Context, h Hook, run Run, mayRepeat bool) (ended Run, retry bool, err error) {
	wasUnknown := mayRepeat && run.State == Unknown
	if run.State != Running && !wasUnknown {
		return run, false, nil
	}
	res, err := r.waitResult(ctx, h, run)
	mayStillRun := err != nil && !errors.Is(err, runtime.ErrUnknownRun)
	if wasUnknown {
		return run, !mayStillRun, taintedError(run, err)
	}
	if err != nil {
		err = fmt.Errorf("the server stopped while it ran: %w", err)
	}
	ended, err = r.end(ctx, run, res, err)
	return ended, mayRepeat && ended.State == Unknown && !mayStillRun, err
}

// waitResult asks until the engine answers.
func (r *Runner) waitResult(ctx context.Context, h Hook, run Run) (runtime.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout+resumeTimeout)
	defer cancel()
	for n := 1; ; n++ {
		res, err := h.Action.WaitResult(ctx, r.call(h, run))
		if !errors.Is(err, runtime.ErrUnavailable) || flow.Sleep(ctx, backoff(min(n, 4))) != nil {
			return res, err
		}
	}
}

// AwaitIdle returns when no hook runs in the container any more. A claim may be ended by another server than the one that makes it, and a
// container be condemned while a hook runs: on record the run has then ended as
// Unknown, and the container is asked. It starts nothing and changes no record.
// hs are all hooks of the container's workload. The error is that of a record
// that cannot be read, of an engine that does not answer, or of ctx.
func (r *Runner) AwaitIdle(ctx context.Context, container string, hs map[Point][]Hook) error {
	runs, err := r.recorder.Runs(ctx, RunFilter{Container: container, States: []RunState{Running, Unknown}, NoOutput: true})
	if err != nil {
		return fmt.Errorf("look up what may run in the container: %w", err)
	}
	for _, run := range runs {
		if run.Index >= len(hs[run.Point]) {
			continue // no hook of this workload
		}
		_, err := r.waitResult(ctx, hs[run.Point][run.Index], run)
		if isEngineUnavailable(err) || ctx.Err() != nil {
			return fmt.Errorf("wait for hook %q of %s: %w", run.Hook, run.Point, errors.Join(err, context.Cause(ctx)))
		}
	}
	return nil
}

// MarkUnknown ends those of the runs with these ids that are under way and that
// nobody will take up: their flows are not gone on with. How they ended is
// Unknown, and none is run again.
func (r *Runner) MarkUnknown(ctx context.Context, ids []string, willResume func(context.Context, Run) (bool, error)) error {
	runs, err := r.recorder.Runs(ctx, RunFilter{States: []RunState{Running}})
	if err != nil {
		return fmt.Errorf("list the hook runs under way: %w", err)
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
		if _, err := r.end(ctx, run, runtime.Result{}, errNotResumed); err != nil {
			return err
		}
	}
	return nil
}

// errNotResumed is why nobody knows how an attempt ended.
var errNotResumed = errors.New("the server stopped while it ran, and what it was for is given up")
