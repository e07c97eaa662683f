package pool

import "github.com/hostler/hostler/activity"

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
var transitions = []transition{
	{create, "", Creating, activity.ContainerCreating}, // by Containers.AddContainer
	{ready, Creating, Idle, activity.ContainerCreated},
	{reserve, Idle, Claimed, activity.ContainerClaimed}, // by claim.Store.Reserve
	{giveBack, Claimed, Idle, activity.ContainerReleased},
	{beginDestroy, Creating, Destroying, activity.ContainerDestroying},
	{beginDestroy, Idle, Destroying, activity.ContainerDestroying},
	{beginDestroy, Claimed, Destroying, activity.ContainerDestroying},
	{finish, Destroying, Destroyed, activity.ContainerDestroyed},
}

// transition is a row of transitions.
type transition struct {
	name     string
	from, to State
	event    activity.Type
}

// CanBecome reports whether a container in state s may change to the other
// state. A change of other fields only is always allowed.
func (s State) CanBecome(to State) bool {
	for _, t := range transitions {
		if t.from == s && t.to == to {
			return true
		}
	}
	return s == to
}

// Transition is a change of one container record. The functions below return
// those that exist; callers add to Set and Events.
type Transition struct {
	ID   string
	From []State // never empty
	To   State   // may be the current state, to change other fields only
	// Set changes the other fields of the record. It runs in the transaction and
	// must not block. It may be nil.
	Set func(*Container)
	// Events record the change. Workload, Container, Tenant and Claim are set
	// from the record before the change.
	Events []activity.Event
}

// newTransition returns the named transition from every state that has it, with
// its event.
func newTransition(name, id string, event activity.Event) Transition {
	m := Transition{ID: id}
	for _, t := range transitions {
		if t.name == name {
			m.From, m.To, event.Type = append(m.From, t.from), t.to, t.event
		}
	}
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
// restart of the server.
func BeginDestroy(id string, from []State, reason string) Transition {
	m := newTransition(beginDestroy, id, activity.Event{
		Message: "destroying container: " + reason, Data: activity.Data(activity.ReasonData{Reason: reason}),
	})
	m.From = from
	m.Set = func(c *Container) { c.Reason, c.Claim = reason, "" }
	return m
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
