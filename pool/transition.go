package pool

import (
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/transition"
)

// The names of the transitions.
const (
	create       = "create"
	ready        = "ready"
	reserve      = "reserve"
	giveBack     = "return"
	beginDestroy = "begin destroy"
	finish       = "finish"
)

// transitions are all legal changes of a container's state, and the types of the
// events that record them. Package store refuses any other change.
var transitions = transition.Table[State]{
	{Name: create, To: Creating, Event: activity.ContainerCreating}, // by Containers.AddContainer
	{Name: ready, From: Creating, To: Idle, Event: activity.ContainerCreated},
	{Name: reserve, From: Idle, To: Claimed, Event: activity.ContainerClaimed}, // by claim.Store.Reserve
	{Name: giveBack, From: Claimed, To: Idle, Event: activity.ContainerReleased},
	{Name: beginDestroy, From: Creating, To: Destroying, Event: activity.ContainerDestroying},
	{Name: beginDestroy, From: Idle, To: Destroying, Event: activity.ContainerDestroying},
	{Name: beginDestroy, From: Claimed, To: Destroying, Event: activity.ContainerDestroying},
	{Name: finish, From: Destroying, To: Destroyed, Event: activity.ContainerDestroyed},
}

// CanBecome reports whether a container in state s may change to the other
// state. A change of other fields only is always allowed.
func (s State) CanBecome(to State) bool { return transitions.Allows(s, to) }

// Transition is a change of one container record. The functions below return
// those that exist; callers add to Set and Events.
type Transition struct {
	ID   string
	From []State // never empty
	To   State   // may be the current state, to change other fields only
	// If reports whether the change still applies to the current record: if not, the
	// error is ErrConflict. It runs in the transaction, like Set. It may be nil.
	If func(Container) bool
	// Set changes the other fields of the record. It runs in the transaction and
	// must not block. It may be nil.
	Set func(*Container)
	// Output, when not nil, is kept in place of what was kept before.
	Output *Output
	// Events record the change. Workload, Container, Tenant and Claim are set
	// from the record before the change.
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

// Ready makes a new container idle.
func Ready(id string, set func(*Container)) Transition {
	m := newTransition(ready, id, activity.Event{Message: "container created and idle"})
	m.Set = set
	return m
}

// Return makes a claimed container idle again. The container is that of a
// claim's transition.
func Return(message string, set func(*Container)) Transition {
	m := newTransition(giveBack, "", activity.Event{Message: message})
	m.Set = func(c *Container) {
		c.Claim = ""
		set(c)
	}
	return m
}

// BeginDestroy returns the transition that hands a container to the reaper. It
// records the intent; the reaper destroys the container, if necessary after a
// restart of the server. The events before are recorded before its own. A container
// that is not healthy keeps the reason of that.
func BeginDestroy(id string, from []State, reason string, before ...activity.Event) Transition {
	m := newTransition(beginDestroy, id, activity.Event{Message: "destroying container: " + reason})
	m.From, m.Events = from, append(before, m.Events...)
	own := &m.Events[len(before)]
	m.Set = func(c *Container) {
		own.Data = activity.Data(activity.ContainerDestroyingData{PreviousState: string(c.State), Reason: reason})
		if isKnown := c.Reason != "" && (c.Health == Exited || c.Health == Unhealthy); !isKnown {
			c.Reason, c.ReasonChain = reason, nil
		}
		c.Claim = ""
	}
	return m
}

// BeginDestroyAfter is BeginDestroy of the container of a claim's transition, with
// what was being done when the reason was found.
func BeginDestroyAfter(chain []string, from []State, reason string) Transition {
	return failure{reason: reason, chain: chain}.record(BeginDestroy("", from, reason))
}

// finishDestroy records that a container is destroyed.
func finishDestroy(id, reason string) Transition {
	return newTransition(finish, id, activity.Event{
		Message: "container destroyed: " + reason, Data: activity.Data(activity.ReasonData{Reason: reason}),
	})
}

// Note changes other fields of a container in state s.
func Note(id string, s State, set func(*Container), events ...activity.Event) Transition {
	return Transition{ID: id, From: []State{s}, To: s, Set: set, Events: events}
}
