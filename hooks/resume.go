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

// resumeTimeout is how long to wait for the outcome of an attempt, in addition
// to its timeout: the engine may be starting, as this server is.
const resumeTimeout = 5 * time.Minute

// priorRuns returns the recorded runs of a point by hook index, each in the
// order of the attempts. A new flow has none.
func (r *Runner) priorRuns(ctx context.Context, p Point, s Subject) (map[int][]Run, error) {
	if s.NoPriorRuns {
		return nil, nil
	}
	runs, err := r.recorder.Runs(ctx, RunFilter{Container: s.Container, Claim: s.Claim, Point: p})
	if err != nil {
		return nil, fmt.Errorf("list the prior runs of %s: %w", p, err)
	}
	prior := make(map[int][]Run, len(runs))
	for _, run := range runs {
		prior[run.Index] = append(prior[run.Index], run)
	}
	return prior, nil
}

// HasStarted reports whether a hook of the point was started for the subject.
func (r *Runner) HasStarted(ctx context.Context, p Point, s Subject) (bool, error) {
	prior, err := r.priorRuns(ctx, p, s)
	return len(prior) > 0, err
}

// resume records the end of an earlier attempt that has not ended on record,
// with the outcome that the container reports. It never starts the command
// again.
//
// If mayRepeat is set, retry reports whether another attempt may follow one
// with an unknown outcome: only if the container reports that no process of it
// is left. The record does not distinguish a tainted container from a lost
// connection, so resume queries the container again.
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

// waitResult polls until the engine is available.
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

// AwaitIdle waits until no hook runs in the container. Another server may end
// the claim, or begin to destroy the container, while a hook runs. The run is
// then recorded as Unknown, and only the container knows whether it has ended.
// AwaitIdle starts nothing and changes no record. hs are all hooks of the
// container's workload. It returns an error if a record cannot be read, if the
// engine is unavailable, or if ctx ends.
func (r *Runner) AwaitIdle(ctx context.Context, container string, hs map[Point][]Hook) error {
	runs, err := r.recorder.Runs(ctx, RunFilter{Container: container, States: []RunState{Running, Unknown}, NoOutput: true})
	if err != nil {
		return fmt.Errorf("list the hook runs of the container: %w", err)
	}
	for _, run := range runs {
		if run.Index >= len(hs[run.Point]) {
			continue // not a hook of this workload
		}
		_, err := r.waitResult(ctx, hs[run.Point][run.Index], run)
		if isEngineUnavailable(err) || ctx.Err() != nil {
			return fmt.Errorf("wait for hook %q of %s: %w", run.Hook, run.Point, errors.Join(err, context.Cause(ctx)))
		}
	}
	return nil
}

// MarkUnknown ends the unfinished runs with these ids as Unknown if their flows
// will not be resumed. None of them is run again.
func (r *Runner) MarkUnknown(ctx context.Context, ids []string, willResume func(context.Context, Run) (bool, error)) error {
	runs, err := r.recorder.Runs(ctx, RunFilter{States: []RunState{Running}})
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
		if _, err := r.end(ctx, run, runtime.Result{}, errNotResumed); err != nil {
			return err
		}
	}
	return nil
}

// errNotResumed is recorded as the reason of an unknown outcome.
var errNotResumed = errors.New("the server stopped while it ran; its flow was abandoned")
