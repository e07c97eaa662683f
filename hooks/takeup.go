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

// takingUp is how much longer than its timeout the outcome of an attempt is
// asked for: an engine may be on its way up, as this server is.
const takingUp = 5 * time.Minute

// before lists what has been recorded of a point already, by the hooks' places
// and in the order of the attempts. Of a new flow there is nothing.
func (r *Runner) before(ctx context.Context, p Point, s Subject) (map[int][]Run, error) {
	if s.New {
		return nil, nil
	}
	runs, err := r.rec.Runs(ctx, RunFilter{Container: s.Container, Claim: s.Claim, Point: p})
	if err != nil {
		return nil, fmt.Errorf("look up what has run at %s: %w", p, err)
	}
	before := make(map[int][]Run, len(runs))
	for _, run := range runs {
		before[run.Index] = append(before[run.Index], run)
	}
	return before, nil
}

// Begun says whether a hook of the point has been begun for the subject.
func (r *Runner) Begun(ctx context.Context, p Point, s Subject) (bool, error) {
	before, err := r.before(ctx, p, s)
	return len(before) > 0, err
}

// takeUp ends an attempt that was begun before, if it has not ended, with what
// the container says has become of it. It is never begun again.
//
// Where repeat is set it says whether another attempt may follow one whose end
// nobody knows: only when the container answers that nothing of it is left. The
// record does not tell what was out of control from what was merely lost sight
// of, so the container is asked once more, and tells.
func (r *Runner) takeUp(ctx context.Context, h Hook, run Run, repeat bool) (ended Run, repeats bool, err error) {
	unknown := repeat && run.State == Unknown
	if run.State != Running && !unknown {
		return run, false, nil
	}
	res, err := r.outcome(ctx, h, run)
	left := err != nil && !errors.Is(err, runtime.ErrNoRun)
	if unknown {
		return run, !left, doom(run, err)
	}
	if err != nil {
		err = fmt.Errorf("the server stopped while it ran: %w", err)
	}
	ended, err = r.end(ctx, run, res, err)
	return ended, repeat && ended.State == Unknown && !left, err
}

// outcome asks until the engine answers.
func (r *Runner) outcome(ctx context.Context, h Hook, run Run) (runtime.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout+takingUp)
	defer cancel()
	for n := 1; ; n++ {
		res, err := h.Action.Outcome(ctx, r.call(h, run))
		if !errors.Is(err, runtime.ErrUnavailable) || flow.Pause(ctx, backoff(min(n, 4))) != nil {
			return res, err
		}
	}
}

// Await returns when no hook runs in the container any more. A claim may be ended by another server than the one that makes it, and a
// container be condemned while a hook runs: on record the run has then ended as
// Unknown, and the container is asked. It starts nothing and changes no record.
// hs are all hooks of the container's workload. The error is that of a record
// that cannot be read, of an engine that does not answer, or of ctx.
func (r *Runner) Await(ctx context.Context, container string, hs map[Point][]Hook) error {
	left, err := r.rec.Runs(ctx, RunFilter{Container: container, States: []RunState{Running, Unknown}, NoOutput: true})
	if err != nil {
		return fmt.Errorf("look up what may run in the container: %w", err)
	}
	for _, run := range left {
		if run.Index >= len(hs[run.Point]) {
			continue // no hook of this workload
		}
		_, err := r.outcome(ctx, hs[run.Point][run.Index], run)
		if unanswered(err) || ctx.Err() != nil {
			return fmt.Errorf("wait for hook %q of %s: %w", run.Hook, run.Point, errors.Join(err, context.Cause(ctx)))
		}
	}
	return nil
}

// Abandon ends those of the runs with these ids that are under way and that
// nobody will take up: their flows are not gone on with. How they ended is
// Unknown, and none is run again.
func (r *Runner) Abandon(ctx context.Context, ids []string, goesOn func(context.Context, Run) (bool, error)) error {
	left, err := r.rec.Runs(ctx, RunFilter{States: []RunState{Running}})
	if err != nil {
		return fmt.Errorf("list the hook runs under way: %w", err)
	}
	for _, run := range left {
		if !slices.Contains(ids, run.ID) {
			continue // another server's
		}
		taken, err := goesOn(ctx, run)
		if err != nil {
			return err
		}
		if taken {
			continue
		}
		if _, err := r.end(ctx, run, runtime.Result{}, errAbandoned); err != nil {
			return err
		}
	}
	return nil
}

// errAbandoned is why nobody knows how an attempt ended.
var errAbandoned = errors.New("the server stopped while it ran, and what it was for is given up")
