package activity

import "context"

// Anonymous is the actor of a request without a credential.
const Anonymous = "anonymous"

// System is the actor of what Hostler does by itself.
const System = "system"

// Actor is who causes a change.
type Actor struct {
	// Name is key:NAME, token:ACTOR#TENANT with the actor who made the token,
	// oidc:ISSUER#SUBJECT, cert:NAME, unix:UID,
	// claim:ID for a program in a container, link for a link to a port, local for a
	// client of a server without credentials, or System.
	Name    string
	Address string // of the client, without the port; empty where there is none
	Request string // the id of the request
}

// CausedBy returns the event as one that the actor has caused, unless it has an
// actor already.
func (e Event) CausedBy(a Actor) Event {
	if e.Actor == "" {
		e.Actor, e.Address, e.Request = a.Name, a.Address, a.Request
	}
	return e
}

type actorKey struct{}

// WithActor returns a context of what the actor causes.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor that a context belongs to: System without one.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Name: System}
}
