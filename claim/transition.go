package claim

import (
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/transition"
	"github.com/hostler/hostler/pool"
)

// The names of the transitions.
const (
	request      = "request"
	activate     = "activate"
	fail         = "fail"
	beginRelease = "begin release"
	retain       = "retain"
	finish       = "finish"
	end          = "end"
)

// transitions are all legal changes of a claim's state, and the types of the
// events that record them. Package store refuses any other change.
var transitions = transition.Table[State]{
	{Name: request, To: Pending, Event: activity.ClaimRequested}, // by Store.Reserve
	{Name: activate, From: Pending, To: Active, Event: activity.ClaimActivated},
	{Name: fail, From: Pending, To: Failed, Event: activity.ClaimFailed},
	{Name: beginRelease, From: Active, To: Releasing, Event: activity.ClaimReleasing},
	{Name: beginRelease, From: ReleaseFailed, To: Releasing, Event: activity.ClaimReleasing},
	{Name: retain, From: Releasing, To: ReleaseFailed, Event: activity.ClaimReleaseFailed},
	{Name: finish, From: Releasing, To: Released, Event: activity.ClaimReleased},
	{Name: end, From: Active, To: Released, Event: activity.ClaimReleased},
	{Name: end, From: Releasing, To: Released, Event: activity.ClaimReleased},
	{Name: end, From: ReleaseFailed, To: Released, Event: activity.ClaimReleased},
}

// CanBecome reports whether a claim in state s may change to the other state. A
// change of other fields only is always allowed.
func (s State) CanBecome(to State) bool { return transitions.Allows(s, to) }

// Transition is a change of a claim and, in the same transaction, of its
// container. The functions below return those that exist; callers add Set, If
// and Container.
type Transition struct {
	ID   string
	From []State // never empty
	To   State   // empty: state and owner are unchanged
	// If reports whether the change still applies to the current record. It runs
	// within the transaction, like Set. nil always applies.
	If func(Claim) bool
	// Set changes the other fields of the record. It runs within the
	// transaction, must be fast and must not block. nil changes nothing.
	Set func(*Claim)
	// Container, when not nil, also changes the claim's container. It is
	// evaluated after Set, which may still modify it. Its ID is taken from the
	// claim; it is skipped for a claim without a container. When the container
	// is in none of the states Container.From, UpdateClaim returns
	// pool.ErrConflict.
	Container *pool.Transition
	// StateBytes, when not nil, are what the tenant's current snapshot occupies.
	StateBytes *int64
	// Events record the change. Workload, Container, Tenant and Claim are filled
	// in from the record before the change.
	Events []activity.Event
}

// newTransition returns the named transition from every state that has it, with
// its event.
func newTransition(name, id string, event activity.Event) Transition {
	m := Transition{ID: id}
	m.From, m.To, event.Type = transitions.Named(name)
	m.Events = []activity.Event{event}
	return m
}

// Activate makes a pending claim active.
func Activate(id string, source Source, timings map[string]float64) Transition {
	return newTransition(activate, id, activity.Event{
		Message: "claim is active", Data: activity.Data(activity.ClaimActivatedData{Source: string(source), Timings: timings}),
	})
}

// Fail ends a pending claim and destroys its container, which a hook may have
// partly changed. chain is what was being done when it failed, outermost first.
func Fail(id, reason string, chain ...string) Transition {
	m := newTransition(fail, id, activity.Event{
		Message: "claim failed: " + reason, Data: activity.Data(activity.ReasonData{Reason: reason}),
	})
	destroy := pool.DestroyFailed("", []pool.State{pool.Claimed}, "its claim failed: "+reason, chain...)
	m.Container = &destroy
	now := time.Now().UTC()
	m.Set = func(c *Claim) { c.Reason, c.ReasonChain, c.ReleasedAt = reason, chain, &now }
	return m
}

// BeginRelease makes an active claim, or one whose release failed, releasing.
func BeginRelease(id, reason string, discard bool) Transition {
	return newTransition(beginRelease, id, activity.Event{
		Message: "claim is being released: " + reason, Data: activity.Data(activity.ClaimReleasingData{Discard: discard}),
	})
}

// Retain records that the release of a claim failed. The claim keeps its
// container.
func Retain(id, message string, data activity.ClaimReleaseFailedData) Transition {
	return newTransition(retain, id, activity.Event{Message: message, Data: activity.Data(data)})
}

// Finish ends a claim whose release is done.
func Finish(id string, data activity.ClaimReleasedData) Transition {
	return newTransition(finish, id, activity.Event{Message: "claim is released: " + data.Reason, Data: activity.Data(data)})
}

// End ends a claim of a restored database, in any live state, without a
// release. A pending claim fails, because no caller waits for it any more.
func End(id string, from State, reason string) Transition {
	name := end
	if from == Pending {
		name = fail
	}
	m := newTransition(name, id, activity.Event{Message: "claim ended: " + reason})
	m.From = []State{from}
	now := time.Now().UTC()
	m.Set = func(c *Claim) { c.Reason, c.ReleasedAt, c.RetryAt = reason, &now, nil }
	return m
}

// Own makes this server the owner of a claim in state s. A pending or releasing
// claim gets a new ContainerFence: the calls of a previous owner are refused.
func Own(id string, s State) Transition { return Transition{ID: id, From: []State{s}, To: s} }

// Note changes other fields of a claim in one of the states from, or records
// events. The owner is unchanged.
func Note(id string, set func(*Claim), from ...State) Transition {
	return Transition{ID: id, From: from, Set: set}
}
