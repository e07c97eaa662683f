package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// runHook runs one hook according to its policy. run is the record of its first
// attempt, prior are the attempts on record. An error ends the point.
func (r *Runner) runHook(ctx context.Context, t *trail, h hooks.Hook, run hooks.Run, s Subject, src source, prior []hooks.Run) ([]hooks.Run, error) {
	var runs []hooks.Run
	for o, err := range r.attempts(ctx, t, h, run, s, src, prior) {
		if o.run.State != "" {
			runs = append(runs, o.run)
		}
		if err != nil {
			return runs, err
		}
		decided, delay := next(h, o)
		switch decided {
		case done:
			return runs, nil
		case fail:
			err := error(&hooks.Error{Run: o.run})
			if o.run.State == hooks.Cancelled {
				err = cancelledError{err, context.Cause(ctx)}
			}
			return runs, err
		case retry:
			if delay == 0 {
				continue
			}
			if err := flow.Sleep(ctx, delay); err != nil {
				return runs, errors.Join(&hooks.Error{Run: o.run}, err)
			}
		}
	}
	return runs, nil
}

// cancelledError is the error of a hook that was cancelled, whose text has the cause.
type cancelledError struct{ hook, cause error }

func (e cancelledError) Error() string   { return e.hook.Error() }
func (e cancelledError) Unwrap() []error { return []error{e.hook, e.cause} }

// attempts performs the attempts of a hook one after another: those on record
// are resumed, then new ones are made until the caller stops. An error ends the
// point. The outcome has no state if the attempt never started.
func (r *Runner) attempts(ctx context.Context, t *trail, h hooks.Hook, run hooks.Run, s Subject, src source, prior []hooks.Run) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		for i, p := range prior {
			last := i == len(prior)-1
			o, err := r.resume(ctx, h, p, s, last && (h.Idempotent || r.executors.Of(p.Kind).Ending(p).Harmless))
			o.followed = !last
			if !yield(o, err) {
				return
			}
			run.ID, run.Attempt = p.ID, p.Attempt+1
		}
		for ; ; run.Attempt++ {
			if !yield(r.attempt(ctx, t, h, run, s, src)) {
				return
			}
		}
	}
}

// attempt runs a hook once and records its start and its end. It returns an
// error if the container is tainted or a record cannot be written. If only the
// hook failed, the error is nil and the outcome has the state.
func (r *Runner) attempt(ctx context.Context, t *trail, h hooks.Hook, run hooks.Run, s Subject, src source) (outcome, error) {
	run.State, run.StartedAt = hooks.Running, time.Now()
	if err := t.start(ctx, run); err != nil {
		return outcome{}, err
	}
	x := r.executors.Of(h.Action.Kind())
	res := x.Execute(ctx, newAttempt(h, run, s, src))
	run = EndedAtPoint(h, run, res, time.Now())
	err := t.end(ctx, run, res.Err)
	return outcome{run: run, ending: x.Ending(run), after: res.RetryAfter}, err
}

// resume records the end of an earlier attempt that has not ended on record,
// with the result that its executor waits for. It never performs the action
// again.
//
// If mayRepeat is set, another attempt may follow one with an unknown outcome
// if nothing of it is left. The record does not distinguish a tainted container
// from a lost connection, so resume queries the result again.
func (r *Runner) resume(ctx context.Context, h hooks.Hook, run hooks.Run, s Subject, mayRepeat bool) (outcome, error) {
	x := r.executors.Of(h.Action.Kind())
	wasUnknown := mayRepeat && run.State == hooks.Unknown
	if run.State != hooks.Running && !wasUnknown {
		return outcome{run: run, ending: x.Ending(run)}, nil
	}
	res := r.waitResult(ctx, x, h, run, s)
	if wasUnknown {
		return outcome{run: run, ending: x.Ending(run), repeatable: res.Gone}, taintedError(run, res.Err)
	}
	if res.Err != nil {
		res.Err = fmt.Errorf("the server stopped while it ran: %w", res.Err)
	}
	run, err := r.end(ctx, h, run, res)
	return outcome{run: run, ending: x.Ending(run), repeatable: mayRepeat && run.State == hooks.Unknown && res.Gone}, err
}

// waitResult waits for the result of an attempt of an earlier server. If the hooks
// of the container were ended, it ends the attempt.
func (r *Runner) waitResult(ctx context.Context, x Executor, h hooks.Hook, run hooks.Run, s Subject) Result {
	cause := r.endings.causeOf(run.Container, run.Point.Rule().AwaitsOthers)
	if cause == nil || !run.Kind.Rule().InContainer {
		a := queryOf(h, run)
		a.Fence, a.MayAsk = s.Fence, s.MayAsk
		a.Parameters, a.Sealed = s.Parameters, s.Sealed
		return x.WaitResult(ctx, a)
	}
	a := queryOf(h, run)
	a.Parameters, a.Sealed = s.Parameters, s.Sealed
	res := endRun(ctx, x, a)
	// Unless its pre_destroy hooks were skipped, the container was kept until the hook had ended.
	isGone := res.State == hooks.Lost && r.endings.causeOf(run.Container, true) == nil
	if res.State == hooks.Failed || isGone {
		res.State, res.Err = hooks.Cancelled, cause
	}
	return res
}

// end records how an attempt of an earlier flow ended. It returns an error if the
// container is tainted or the record cannot be written.
func (r *Runner) end(ctx context.Context, h hooks.Hook, run hooks.Run, res Result) (hooks.Run, error) {
	run = EndedAtPoint(h, run, res, time.Now())
	t := trail{runner: r}
	return run, t.end(ctx, run, res.Err)
}

// taintedError returns an error if a process of the attempt may still run.
func taintedError(run hooks.Run, err error) error {
	if errors.Is(err, runtime.ErrTainted) {
		return errors.Join(&hooks.Error{Run: run}, err)
	}
	return nil
}
