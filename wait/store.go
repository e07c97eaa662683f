package wait

import (
	"context"
	"encoding/json"
	"time"
)

// Store keeps waits and signals. Each change is one transaction with its events,
// and is durable when the method returns. Changes of a claim's waits lock the
// claim, so the methods below decide what happens first.
type Store interface {
	// StartWait adds a wait, unless its claim has one with the same request, or an
	// open one of the same name and type, which the request joins: that one is returned
	// then, with created false. A request that began or joined a wait returns it also
	// after its end, and one with its ID and another Digest is ErrOtherRequest. Any other
	// one returns its Refused, if that is set. If no hooks run before its clock, the clock
	// starts at once. It takes a kept signal as UpdateWait does. A claim that is not active
	// is claim.ErrNotActive.
	StartWait(ctx context.Context, w Wait) (_ Wait, created bool, err error)
	// UpdateWait changes a wait, and makes this server its owner. If the wait is
	// then Waiting and a signal of its name is kept, it takes the oldest one. The end
	// of a wait is an activity of the claim's tenant.
	UpdateWait(ctx context.Context, m Transition) (Wait, error)
	// SendSignal gives a signal to the wait of its name if that is Waiting, and
	// otherwise keeps it. It returns the wait, or the number of signals that are kept
	// for the name.
	SendSignal(ctx context.Context, s Signal) (w *Wait, kept int, err error)
	// AdoptWait makes this server the owner of an open wait.
	AdoptWait(ctx context.Context, id string) error

	// Self returns what names this server as an owner.
	Self() string
	// Wait returns a wait and, if it has a deadline, the time until then by the
	// database's clock.
	Wait(ctx context.Context, id string) (Wait, time.Duration, error)
	// Waits lists the matching waits, in order of id.
	Waits(ctx context.Context, f Filter) ([]Wait, error)
	// OpenWaits lists the open waits.
	OpenWaits(ctx context.Context) ([]Open, error)
}

// Open is an open wait as OpenWaits lists it.
type Open struct {
	Key
	State    State
	Round    int
	IsOwn    bool          // of this server
	TimeLeft time.Duration // until the deadline, by the database's clock
}

// Signal is a signal for a wait of its name.
type Signal struct {
	ID    string // sorts by time
	Claim string
	Name  string
	Data  json.RawMessage
}
