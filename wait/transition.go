package wait

import (
	"encoding/json"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/transition"
)

// The names of the transitions.
const (
	request  = "request"
	begin    = "begin"
	receive  = "receive"
	resume   = "resume"
	expire   = "expire"
	extend   = "extend"
	retry    = "retry"
	abort    = "abort"
	escalate = "escalate"
	cancel   = "cancel"
)

// transitions are all legal changes of a wait's state, and the types of the events
// that record them.
var transitions = transition.Table[State]{
	{Name: request, To: Starting, Event: activity.WaitRequested},
	{Name: begin, From: Starting, To: Waiting, Event: activity.WaitStarted},
	{Name: receive, From: Waiting, To: Signalling, Event: activity.WaitSignalReceived},
	{Name: resume, From: Signalling, To: Signalled, Event: activity.WaitSignalled},
	{Name: expire, From: Waiting, To: TimingOut, Event: activity.WaitExpired},
	{Name: extend, From: TimingOut, To: Waiting, Event: activity.WaitExtended},
	{Name: retry, From: TimingOut, To: Starting, Event: activity.WaitRetried},
	{Name: abort, From: TimingOut, To: Aborted, Event: activity.WaitAborted},
	{Name: escalate, From: TimingOut, To: TimedOut, Event: activity.WaitTimedOut},
	{Name: cancel, From: Starting, To: Cancelled, Event: activity.WaitCancelled},
	{Name: cancel, From: Waiting, To: Cancelled, Event: activity.WaitCancelled},
	{Name: cancel, From: Signalling, To: Cancelled, Event: activity.WaitCancelled},
	{Name: cancel, From: TimingOut, To: Cancelled, Event: activity.WaitCancelled},
}

// CanBecome reports whether a wait in state s may change to the other state.
func (s State) CanBecome(to State) bool { return transitions.Allows(s, to) }

// Transition is a change of a wait. It is refused with ErrConflict unless the wait
// is in state From and in the same round.
type Transition struct {
	Key
	From  State
	Round int
	// Apply changes the record at a time of the database's clock, and returns the
	// events. It runs in the transaction, perhaps more than once, each time on a
	// record that it has not changed.
	Apply func(w *Wait, now time.Time) []activity.Event
}

// step makes one change of state. The functions below call it after they have set
// the other fields; what they do in one transaction are several steps where no hook
// runs between them.
func (w *Wait) step(name string, now time.Time) activity.Event {
	var event activity.Type
	_, w.State, event = transitions.Named(name)
	if !w.State.IsOpen() {
		w.EndedAt = &now
	}
	return w.event(event)
}

// event returns an event about the wait. Its message has nothing that the tenant
// wrote.
func (w *Wait) event(t activity.Type) activity.Event {
	context := w.contextOf()
	data := activity.WaitData{
		Wait: w.ID, Name: w.Name, Kind: w.Type, Round: w.Round, TimeoutMS: w.TimeoutMS, ThresholdMS: w.TimeoutMS,
		Decision: string(w.Decision), Reason: w.Reason, DurationMS: w.duration().Milliseconds(), ExceededMS: w.Exceeded().Milliseconds(),
		Task: cut(context.Task), Iteration: cut(context.Iteration), Phase: cut(context.Phase),
	}
	if w.State == Waiting {
		data.TimeoutMS = w.granted().Milliseconds()
	}
	return activity.Event{
		Type: t, Workload: w.Workload, Container: w.Container, Claim: w.Claim, Tenant: w.Tenant,
		Message: messages[t], Data: activity.Data(data),
	}
}

// maxEventText is how many characters of a field of the context an event has.
const maxEventText = 256

// cut returns the beginning of a text that the tenant wrote.
func cut(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxEventText {
			return text[:i]
		}
	}
	return text
}

// messages are the messages of the events.
var messages = map[activity.Type]string{
	activity.WaitRequested:      "wait was requested",
	activity.WaitStarted:        "wait started",
	activity.WaitSignalReceived: "wait received its signal",
	activity.WaitSignalled:      "wait ended with its signal",
	activity.WaitExpired:        "deadline of the wait passed",
	activity.WaitExtended:       "deadline of the wait was extended",
	activity.WaitRetried:        "wait begins again",
	activity.WaitTimedOut:       "wait timed out",
	activity.WaitEscalated:      "wait timed out, and is escalated",
	activity.WaitAborted:        "wait was aborted after its deadline",
	activity.WaitCancelled:      "wait was canceled: its claim ended",
}

// granted returns the time between the last start of the clock, or the extension,
// and the deadline.
func (w *Wait) granted() time.Duration {
	if w.FiredAt != nil {
		return between(w.FiredAt, w.Deadline)
	}
	return between(w.StartedAt, w.Deadline)
}

// Requested returns the event of a new wait.
func (w *Wait) Requested() activity.Event { return w.event(activity.WaitRequested) }

// Begin starts the clock.
func (w *Wait) Begin(now time.Time) []activity.Event {
	deadline := now.Add(w.Timeout())
	w.StartedAt, w.Deadline, w.FiredAt = &now, &deadline, nil
	return []activity.Event{w.step(begin, now)}
}

// HasStartHooks reports whether hooks may run before the clock starts.
func (w *Wait) HasStartHooks() bool { return w.fires(hooks.WaitStart) }

// Receive gives the wait its signal.
func (w *Wait) Receive(data json.RawMessage, now time.Time) []activity.Event {
	w.Data, w.FiredAt = data, &now
	events := []activity.Event{w.step(receive, now)}
	if !w.fires(hooks.WaitSignal) {
		events = append(events, w.Resume(now)...)
	}
	return events
}

// Resume ends a wait whose signal was received.
func (w *Wait) Resume(now time.Time) []activity.Event {
	return []activity.Event{w.step(resume, now)}
}

// Expire records that the deadline has passed.
func (w *Wait) Expire(now time.Time) []activity.Event {
	w.FiredAt = &now
	events := []activity.Event{w.step(expire, now)}
	if !w.fires(hooks.WaitTimeout) {
		events = append(events, w.Decide(Outcome{}, now)...)
	}
	return events
}

// Outcome is what the hooks of wait_timeout decided. The zero Outcome leaves the
// decision to the wait.
type Outcome struct {
	Decision Decision
	By       time.Duration // of Extend; 0: the timeout of the wait
	Reason   string        // why there is no decision, or why it is another one
}

// Decide ends a wait after its deadline, or begins another round. Each of Extend
// and Retry is possible once.
func (w *Wait) Decide(v Outcome, now time.Time) []activity.Event {
	if v.Decision == "" {
		v.Decision = w.OnTimeout
	}
	switch {
	case v.Decision == Extend && w.Extended:
		v.Decision, v.Reason = Escalate, "it was extended before"
	case v.Decision == Retry && w.Retried:
		v.Decision, v.Reason = Escalate, "it was retried before"
	}
	w.Decision, w.Reason = v.Decision, v.Reason
	switch v.Decision {
	case Extend:
		by := v.By
		if by <= 0 {
			by = w.Timeout()
		}
		deadline := now.Add(by)
		w.Extended, w.Round, w.Deadline, w.FiredAt = true, w.Round+1, &deadline, &now
		return []activity.Event{w.step(extend, now)}
	case Retry:
		w.Retried, w.Round = true, w.Round+1
		events := []activity.Event{w.step(retry, now)}
		if !w.HasStartHooks() {
			events = append(events, w.Begin(now)...)
		}
		return events
	case Abort:
		return []activity.Event{w.step(abort, now)}
	}
	w.Decision = Escalate
	return []activity.Event{w.step(escalate, now), w.event(activity.WaitEscalated)}
}

// Cancel ends an open wait with its claim.
func (w *Wait) Cancel(reason string, now time.Time) []activity.Event {
	w.Reason = reason
	return []activity.Event{w.step(cancel, now)}
}
