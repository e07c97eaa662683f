package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/hooks"
)

// run runs the hooks of a point in order. If stopped is not empty, it is why
// none can be started in the container. After a failed hook, whose error failed
// is, and after one that stops the point, the rest is skipped. Disabled hooks
// leave no record. Any other error ends the point at once, without records: a
// hook that was not skipped by the policy runs when the point is fired again.
func (r *Runner) run(ctx context.Context, p hooks.Point, hs []hooks.Hook, s Subject, stopped string, prior map[int][]hooks.Run) (runs []hooks.Run, failed, err error) {
	src := source{}
	if s.Skip != "" {
		// What an earlier flow has started is not waited for.
		canceled, cancel := context.WithCancelCause(ctx)
		cancel(errors.New(s.Skip))
		ctx = canceled
	} else if src, err = r.source(ctx, hs, s); err != nil {
		return nil, nil, err
	}
	t := &trail{runner: r}
	defer func() {
		if failure := t.flush(ctx); failure != nil {
			err = errors.Join(err, failure)
		}
	}()
	ended := "" // why the rest is skipped
	for i, h := range hs {
		if h.Disabled && len(prior[i]) == 0 {
			continue
		}
		run := newRun(p, h, i, s)
		src.trusted = trustedOf(run, s)
		reason := cmp.Or(s.Skip, ended, skipReason(h, stopped, src, len(prior[i]) > 0))
		if reason != "" || len(prior[i]) > 0 {
			if err := t.flush(ctx); err != nil {
				return runs, failed, err
			}
		}
		var attempts []hooks.Run
		if t.hasNext = i+1 < len(hs); reason != "" {
			attempts, err = r.skipHook(ctx, h, run, s, reason, prior[i])
		} else {
			attempts, err = r.runHook(ctx, t, h, run, s, src, prior[i])
		}
		runs = append(runs, attempts...)
		if err != nil {
			if _, isHookError := errors.AsType[*hooks.Error](err); !isHookError || reason != "" {
				return runs, failed, err // a record could not be written
			}
			failed = err
			ended = fmt.Sprintf("hook %q of the same point failed", h.Name)
		}
		if n := len(attempts); n > 0 && attempts[n-1].Stopped && ended == "" {
			ended = fmt.Sprintf("hook %q stopped the point", h.Name)
		}
		src.add(attempts)
	}
	return runs, failed, nil
}

// skipReason returns why a hook is not run, or "". stopped is why the container
// cannot run commands. begun reports whether an earlier flow began the hook: its
// condition was checked then.
func skipReason(h hooks.Hook, stopped string, src source, begun bool) string {
	switch {
	case stopped != "" && runsInContainer(h):
		return stopped
	case begun:
		return ""
	case !h.Condition.Holds(src.lookup):
		return "its condition is false: " + h.Condition.String()
	}
	return ""
}

// newRun returns the record of a hook's first attempt.
func newRun(p hooks.Point, h hooks.Hook, index int, s Subject) hooks.Run {
	file := ""
	if s.workload != nil {
		file = s.workload.File
	}
	wait := ""
	if s.Wait != nil {
		wait = s.Wait.Round
	}
	return hooks.Run{
		File: file, Wait: wait,
		ID: newID(), Point: p, Hook: h.Name, Index: index, Attempt: 1,
		Kind: h.Action.Kind(), Command: h.Action.Summary(),
		Workload: s.Workload, Container: s.Container, Claim: s.Claim, Tenant: s.Tenant,
	}
}

// skipHook records a hook as skipped, or ends the attempts of it that an earlier
// flow has started. It records also after ctx has ended.
func (r *Runner) skipHook(ctx context.Context, h hooks.Hook, run hooks.Run, s Subject, reason string, prior []hooks.Run) ([]hooks.Run, error) {
	var runs []hooks.Run
	for _, p := range prior {
		o, err := r.resume(ctx, h, p, s, false)
		runs = append(runs, o.run)
		if err != nil {
			return runs, err
		}
	}
	if len(prior) > 0 {
		return runs, nil
	}
	now := time.Now()
	run.State, run.Error, run.StartedAt, run.EndedAt = hooks.Skipped, reason, now, &now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := r.recorder.RunSkipped(ctx, run); err != nil {
		return nil, fmt.Errorf("record that hook %q was skipped: %w", h.Name, err)
	}
	return []hooks.Run{run}, nil
}

// priorRuns returns the recorded runs of a point, in the order of the hooks and
// their attempts. A new flow has none.
func (r *Runner) priorRuns(ctx context.Context, p hooks.Point, s Subject) ([]hooks.Run, error) {
	if s.NoPriorRuns {
		return nil, nil
	}
	f := hooks.RunFilter{Container: s.Container, Claim: s.Claim, Point: p}
	if s.Wait != nil {
		f.Wait = s.Wait.Round
	}
	runs, err := r.recorder.Runs(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list the prior runs of %s: %w", p, err)
	}
	return runs, nil
}

// newID returns an id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
