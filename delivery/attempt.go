package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/runtime"
)

// deliver attempts the first delivery of a key.
func (s *Service) deliver(ctx context.Context, t *workqueue.Task[Key]) error {
	d, err := s.store.FirstDelivery(ctx, t.Key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil && d.State != Running && d.DueAt != nil {
		if wait := time.Until(*d.DueAt); wait > 0 {
			s.keys.AddAfter(t.Key, wait)
			return nil
		}
	}
	if err == nil {
		err = s.attempt(ctx, d)
	}
	switch {
	case errors.Is(err, ErrClaimPending):
		s.keys.AddAfter(t.Key, pendingDelay)
	case err == nil:
		s.keys.Add(t.Key) // the next one
	case errors.Is(err, ErrConflict):
		s.keys.AddAfter(t.Key, conflictDelay) // it was changed in the meantime
	default:
		if ctx.Err() == nil {
			s.log.Warn("delivery could not be attempted; retrying", "workload", t.Key.Workload, "hook", t.Key.Hook, "error", err)
		}
		return err
	}
	return nil
}

// occasion is what an attempt is about.
type occasion struct {
	delivery Delivery
	hook     hooks.EventHook
	run      hooks.Run
	attempt  runner.Attempt
}

// attempt makes one attempt, or continues the one of a server that has
// terminated, and records what became of it.
func (s *Service) attempt(ctx context.Context, d Delivery) error {
	o, reason, err := s.occasion(ctx, d)
	if err != nil {
		return err
	}
	if d.State == Running {
		return s.resume(ctx, o, reason)
	}
	if reason != "" {
		return s.discard(ctx, d, reason, nil)
	}
	if !o.hook.Condition.Holds(o.attempt.Lookup) {
		return s.skip(ctx, o, Succeeded, "its condition is false")
	}
	return s.execute(ctx, o)
}

// occasion reads what an attempt is about. reason is why it cannot be made.
func (s *Service) occasion(ctx context.Context, d Delivery) (o occasion, reason string, err error) {
	o.delivery = d
	a, err := s.applied.of(ctx, d.Workload)
	if err != nil {
		return o, "", err
	}
	h, ok := a.hook(d.Hook)
	if !ok {
		return o, "the hook was removed", nil
	}
	o.hook = h
	e, err := s.store.Event(ctx, d.Seq)
	if errors.Is(err, ErrEventRemoved) {
		return o, ErrEventRemoved.Error(), nil
	}
	if err != nil {
		return o, "", err
	}
	o.run = hooks.Run{
		ID: d.ID, Attempt: d.Attempts + 1, Event: string(d.Event), Seq: d.Seq, Hook: d.Hook,
		Kind: h.Action.Kind(), Command: h.Action.Summary(),
		Workload: d.Workload, Container: d.Container, Claim: d.Claim, Tenant: d.Tenant,
	}
	switch {
	case h.Disabled:
		return o, "the hook is disabled", nil
	case o.run.Kind.Rule().InContainer && d.Container == "":
		return o, "the event has no container in which a command could run", nil
	}
	o.attempt, err = s.o.Attempt(ctx, h.Hook, o.run, a.w, runner.Envelope{
		Type: string(e.Type), Timestamp: e.Time, Seq: e.Seq, Workload: e.Workload,
		Container: e.Container, Claim: e.Claim, Tenant: e.Tenant, Message: e.Message, Data: e.Data, Untrusted: e.Untrusted,
	})
	return o, "", err
}

// execute starts an attempt, performs it, and records its end. It is not canceled
// when the server stops.
func (s *Service) execute(ctx context.Context, o occasion) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	if o.run.Kind.Rule().InContainer {
		// Before the start is recorded: a flow that begins after that cancels it.
		defer s.addCommand(o.run, cancel)()
	}
	d := o.delivery
	d.State, d.Attempts, d.DueAt = Running, o.run.Attempt, nil
	o.run.State, o.run.StartedAt = hooks.Running, time.Now()
	flow.Failpoint("delivery", "start", "before")
	permission, err := s.store.UpdateDelivery(ctx, Transition{Delivery: d, From: []State{Queued, Scheduled}, Run: &o.run})
	if errors.Is(err, ErrClaimEnded) {
		return s.skip(ctx, o, Discarded, ErrClaimEnded.Error())
	}
	if err != nil {
		return err
	}
	flow.Failpoint("delivery", "start", "after")
	o.delivery, o.attempt.Fence = d, permission.Fence
	flow.Failpoint("delivery", "perform", "before")
	res := s.o.Executors.Of(o.run.Kind).Execute(work, o.attempt)
	flow.Failpoint("delivery", "perform", "after")
	return s.end(ctx, o, res)
}

// addCommand registers a command that may run, until the returned function is
// called.
func (s *Service) addCommand(r hooks.Run, cancel context.CancelCauseFunc) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands[r.ID] = &command{container: r.Container, claim: r.Claim, cancel: cancel}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.commands, r.ID)
	}
}

// resume continues an attempt whose server has terminated: it waits for the
// result and never performs the action again. Like execute, it ends a command
// when a flow of its container begins, or has begun, and not when the server
// stops. reason is why there will be no other attempt.
func (s *Service) resume(ctx context.Context, o occasion, reason string) error {
	runs, err := s.store.Run(ctx, o.delivery.ID)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("delivery %s is running and has no run", o.delivery.ID)
	}
	o.run = runs[len(runs)-1]
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	if o.run.Kind.Rule().InContainer {
		// Before the adoption: a flow that begins after that cancels it.
		defer s.addCommand(o.run, cancel)()
	}
	isPermitted, err := s.store.AdoptDelivery(ctx, o.run)
	if err != nil {
		return err
	}
	if !isPermitted {
		cancel(ErrClaimEnded)
	}
	res := runner.Result{State: o.run.State, Detail: o.run.Detail, Stdout: o.run.Stdout, Stderr: o.run.Stderr}
	if o.run.State == hooks.Running {
		res = s.o.Executors.Of(o.run.Kind).WaitResult(work, o.earlierAttempt())
		if errors.Is(res.Err, runtime.ErrUnavailable) {
			return fmt.Errorf("wait for the result of an attempt: %w", res.Err)
		}
	}
	switch {
	case res.Err != nil:
		res.Err = fmt.Errorf("%w: %w", errStopped, res.Err)
	case res.State == hooks.Unknown:
		res.Err = errStopped
	}
	if reason != "" {
		o.hook.Retries = 0
	}
	return s.end(ctx, o, res)
}

// earlierAttempt returns the attempt of a run, for its result.
func (o occasion) earlierAttempt() runner.Attempt {
	r, timeout := o.run, o.hook.Timeout
	if timeout == 0 {
		timeout = hooks.MaxTimeout // the hook was removed
	}
	return runner.Attempt{
		Action: o.hook.Action, Timeout: timeout,
		Context: runner.Context{
			Run: r.ID, Attempt: r.Attempt, Hook: r.Hook, Workload: r.Workload, Container: r.Container, Claim: r.Claim, Tenant: r.Tenant,
		},
	}
}

// errStopped is why an outcome may be unknown.
var errStopped = errors.New("the server stopped while it ran")

// end records how an attempt has ended, and what follows for its delivery. It
// retries until it is recorded or the server stops: a known outcome must not
// become an unknown one.
func (s *Service) end(ctx context.Context, o occasion, res runner.Result) error {
	now := time.Now()
	res = confirmed(res)
	run := runner.Ended(o.run, res, now)
	d := next(o, run, res, s.o.Executors.Of(run.Kind).Ending(run), now)
	s.taint(ctx, d, run, res)
	t := Transition{Delivery: d, From: []State{Running}, Run: &run}
	if d.State == Discarded {
		t.Events = append(t.Events, d.event(activity.DeliveryDiscarded))
	}
	recording := context.WithoutCancel(ctx)
	for retries := recordRetries.Retries(); ; {
		flow.Failpoint("delivery", "end", "before")
		_, err := s.store.UpdateDelivery(recording, t)
		if err == nil {
			flow.Failpoint("delivery", "end", "after")
			s.ended(d)
			return nil
		}
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || retries.Sleep(ctx) != nil {
			return err
		}
		s.log.Warn("end of a delivery could not be recorded; retrying", "hook", d.Hook, "workload", d.Workload, "error", err)
	}
}

// confirmed returns a result that the record may have. A canceled command whose
// end the container did not confirm has no known outcome.
func confirmed(res runner.Result) runner.Result {
	if res.State == hooks.Cancelled && errors.Is(res.Err, runtime.ErrUnavailable) {
		res.State = hooks.Unknown
	}
	return res
}

// taint has the container destroyed if a command may still run in it, or still
// arrive there. A claim that has reserved it in the meantime finds the record of
// the run, and gives it up.
func (s *Service) taint(ctx context.Context, d Delivery, run hooks.Run, res runner.Result) {
	mayArrive := run.Kind.Rule().InContainer && run.Claim == "" && run.State == hooks.Unknown && d.State != Scheduled
	if s.o.OnTainted == nil || !mayArrive && !errors.Is(res.Err, runtime.ErrTainted) {
		return
	}
	if err := s.o.OnTainted(ctx, run.Container, "a command of an event hook may still run"); err != nil {
		s.log.Warn("container of an event hook could not be destroyed", "container", run.Container, "error", err)
	}
}

var recordRetries = backoff.Policy{Min: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: 0.2}

// skip ends a delivery without an attempt, with a run that has the reason.
func (s *Service) skip(ctx context.Context, o occasion, state State, reason string) error {
	now := time.Now()
	o.run.State, o.run.Error, o.run.StartedAt, o.run.EndedAt = hooks.Skipped, reason, now, &now
	d := o.delivery
	d.Attempts = o.run.Attempt
	if state == Discarded {
		return s.discard(ctx, d, reason, &o.run)
	}
	d.State, d.Reason, d.DueAt = state, reason, nil
	_, err := s.store.UpdateDelivery(ctx, Transition{Delivery: d, From: []State{Queued, Scheduled}, Run: &o.run})
	if err == nil {
		s.ended(d)
	}
	return err
}

// discard ends a delivery that will not be attempted. run, if any, is the record
// of the hook that is skipped.
func (s *Service) discard(ctx context.Context, d Delivery, reason string, run *hooks.Run) error {
	d.State, d.Reason, d.DueAt = Discarded, reason, nil
	_, err := s.store.UpdateDelivery(ctx, Transition{
		Delivery: d, From: []State{Queued, Scheduled}, Run: run, Events: []activity.Event{d.event(activity.DeliveryDiscarded)},
	})
	if err == nil {
		s.ended(d)
	}
	return err
}

// event returns an event about the delivery. It is not delivered itself.
func (d Delivery) event(t activity.Type) activity.Event {
	message := fmt.Sprintf("%s for hook %q was retried", d.Event, d.Hook)
	if t == activity.DeliveryDiscarded {
		message = fmt.Sprintf("%s for hook %q was discarded: %s", d.Event, d.Hook, d.Reason)
	}
	return activity.Event{
		Type: t, Workload: d.Workload, Container: d.Container, Claim: d.Claim, Tenant: d.Tenant, Run: d.ID, Depth: 1, Message: message,
		Data: activity.Data(activity.DeliveryData{Delivery: d.ID, Event: string(d.Event), Hook: d.Hook, Reason: d.Reason, Seq: d.Seq}),
	}
}

// ended reports a delivery that may have ended.
func (s *Service) ended(d Delivery) {
	if d.State.IsLive() {
		return
	}
	if s.o.OnEnd != nil {
		s.o.OnEnd(d)
	}
	switch d.State {
	case Discarded:
		s.log.Warn("delivery discarded", "workload", d.Workload, "hook", d.Hook, "event", d.Event, "seq", d.Seq, "delivery", d.ID, "reason", d.Reason)
	case Failed:
		// Each of its attempts is an error.
		s.log.Warn("delivery failed", "workload", d.Workload, "hook", d.Hook, "event", d.Event, "seq", d.Seq, "delivery", d.ID, "attempts", d.Attempts, "reason", d.Reason)
	}
	if a, err := s.applied.of(context.Background(), d.Workload); err == nil && a.isDeleting {
		s.wakeFillers([]string{d.Workload})
	}
}
