package wait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/pool"
)

// hookPoints are the points whose hooks run in each state, and what follows them.
var hookPoints = map[State]struct {
	point hooks.Point
	then  func(s *Service, w *Wait, runs []hooks.Run, now time.Time) []activity.Event
}{
	Starting: {hooks.WaitStart, func(_ *Service, w *Wait, _ []hooks.Run, now time.Time) []activity.Event {
		return w.Begin(now)
	}},
	Signalling: {hooks.WaitSignal, func(_ *Service, w *Wait, _ []hooks.Run, now time.Time) []activity.Event {
		return w.Resume(now)
	}},
	TimingOut: {hooks.WaitTimeout, func(s *Service, w *Wait, runs []hooks.Run, now time.Time) []activity.Event {
		return w.Decide(outcome(runs, s.o.MaxTimeout), now)
	}},
}

// progress does what a wait needs next: its hooks, or the end of its time. The work
// is not canceled when the server stops.
func (s *Service) progress(ctx context.Context, t *workqueue.Task[Key]) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	// Before the record is read: a claim that ends after that cancels the hooks.
	defer s.addCancel(t.Key.ID, cancel)()
	w, left, err := s.store.Wait(work, t.Key.ID)
	if errors.Is(err, ErrNotFound) {
		s.ended(t.Key)
		return nil
	}
	if err == nil {
		err = s.advance(work, w, left)
	}
	switch {
	case err == nil, errors.Is(err, ErrConflict), errors.Is(err, errCancelled):
		return nil // another server, or the end of the claim, came first
	case ctx.Err() == nil:
		s.log.Warn("wait could not be continued; retrying", "wait", t.Key.ID, "claim", t.Key.Claim, "error", err)
	}
	return err
}

// advance is progress with the record. left is the time until the deadline, by the
// database's clock.
func (s *Service) advance(ctx context.Context, w Wait, left time.Duration) error {
	switch {
	case !w.State.IsOpen():
		s.ended(w.Key())
		return nil
	case w.State.runsHooks() && w.Owner != s.store.Self():
		return nil // its owner runs them, or the server that takes over from it
	case w.State.runsHooks():
		return s.runHooks(ctx, w)
	}
	if due := s.dueAt(w, left); time.Now().Before(due) {
		s.keys.AddAfter(w.Key(), time.Until(due))
		return nil
	}
	flow.Failpoint("wait", "expire", "before")
	w, err := s.store.UpdateWait(ctx, Transition{
		Key: w.Key(), From: Waiting, Round: w.Round,
		Apply: func(w *Wait, now time.Time) []activity.Event { return w.Expire(now) },
	})
	if err != nil {
		return err
	}
	flow.Failpoint("wait", "expire", "after")
	s.changed(w)
	return nil
}

// runHooks runs the hooks of a wait's state, and records what follows. A server that
// resumes them finds their records.
func (s *Service) runHooks(ctx context.Context, w Wait) error {
	at := hookPoints[w.State]
	runs, err := s.fire(ctx, w, at.point)
	if err != nil {
		return err
	}
	flow.Failpoint("wait", "record", "before")
	updated, err := s.store.UpdateWait(ctx, Transition{
		Key: w.Key(), From: w.State, Round: w.Round,
		Apply: func(w *Wait, now time.Time) []activity.Event { return at.then(s, w, runs, now) },
	})
	if err != nil {
		return err
	}
	flow.Failpoint("wait", "record", "after")
	s.changed(updated)
	return nil
}

// fire runs the hooks of a point. A failed one changes nothing for the wait. Neither
// does a container that is being destroyed by force: its hooks do not run.
func (s *Service) fire(ctx context.Context, w Wait, p hooks.Point) ([]hooks.Run, error) {
	if !w.fires(p) {
		return nil, nil
	}
	c, err := s.o.Claims.Claim(ctx, w.Claim)
	if err != nil {
		return nil, err
	}
	file, _, err := s.o.Workloads.Revision(ctx, c.Workload, c.Revision)
	if err != nil {
		return nil, fmt.Errorf("read the workload of claim %s: %w", c.ID, err)
	}
	subject := c.Subject()
	subject.Reason, subject.Wait = "", w.describe(p)
	subject.NoPriorRuns = s.isFresh(w, p)
	flow.Failpoint("wait", "hooks", "before")
	out, err := s.o.Runner.Fire(ctx, p, file, subject)
	flow.Failpoint("wait", "hooks", "after")
	switch {
	case ctx.Err() != nil:
		return nil, errCancelled
	case errors.Is(err, pool.ErrConflict):
		return out.Runs, nil
	}
	return out.Runs, err
}
