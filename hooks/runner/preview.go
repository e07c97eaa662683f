package runner

import (
	"context"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/workload"
)

// PointAttempt returns the first attempt that Fire would make for the hook of w
// at a point with an index. It performs nothing and reads no records: no value
// is captured.
func PointAttempt(p hooks.Point, index int, w *workload.Workload, s Subject) Attempt {
	s.workload = w
	h := w.Hooks[p][index]
	return newAttempt(h, newRun(p, h, index, s), s, source{configured: w.Environment})
}

// TestAttempt returns the run and the attempt that test the hook of w at a point
// with an index. captured has what earlier hooks of the same test have captured.
func (r *Runner) TestAttempt(ctx context.Context, p hooks.Point, index int, w *workload.Workload, s Subject, captured map[string]string) (hooks.Run, Attempt, error) {
	s.workload = w
	h := w.Hooks[p][index]
	src, err := r.source(ctx, []hooks.Hook{h}, s)
	if err != nil {
		return hooks.Run{}, Attempt{}, err
	}
	run := newRun(p, h, index, s)
	src.add([]hooks.Run{{Values: captured}})
	return run.AsTest(), newAttempt(h, run, s, src), nil
}

// EventPreview returns the attempt that performs a run of an event hook, as
// Runner.EventAttempt does, but without captured values.
func EventPreview(h hooks.Hook, run hooks.Run, w *workload.Workload, e Envelope) (Attempt, error) {
	return eventAttempt(h, run, eventSubject(run, w), e, source{configured: w.Environment})
}
