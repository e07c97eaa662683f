package delivery

import (
	"context"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
)

// Store keeps deliveries. Each call that changes something is one transaction.
type Store interface {
	Outbox
	Records
	// Events returns the page of events after a number.
	Events(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error)
	// Run returns the attempts of a run in order.
	Run(ctx context.Context, id string) ([]hooks.Run, error)
}

// Outbox turns events into deliveries. Only the leader calls FanOut.
type Outbox interface {
	// FanOut calls match with the events after the cursor, at most limit, and
	// makes the changes that it returns, in order, in the transaction that moves
	// the cursor past them. match may be called again with the same events if the
	// changes were not made. There is a cursor exactly while a workload has event
	// hooks; without one, FanOut does nothing and isActive is false. more reports
	// whether there may be more events.
	FanOut(ctx context.Context, limit int, match func(context.Context, []activity.Event) ([]Change, error)) (isActive, more bool, err error)
	// AddDeliveries makes changes that follow from no new event, and writes the
	// events.
	AddDeliveries(ctx context.Context, changes []Change, events ...activity.Event) error
	// ExcessDeliveries returns deliveries that wait and are to be discarded, at most
	// limit of each queue: those that were added before a time; of each tenant with
	// more than perTenant live ones of tenants' events in a workload, as many; and, if
	// there are none of these, of each workload with more than perWorkload live ones
	// as many of tenants' events. Those of the lowest priority come first.
	ExcessDeliveries(ctx context.Context, before time.Time, perWorkload, perTenant, limit int) ([]Delivery, error)
	// DeliveryStatus returns the state of the queue.
	DeliveryStatus(ctx context.Context) (Status, error)
}

// Records reads and changes deliveries.
type Records interface {
	// UpdateDelivery performs a transition. A delivery that does not exist is
	// ErrNotFound. One that is not in one of the states From, or whose event a
	// later one has taken the place of, is ErrConflict. One in state Running belongs
	// to the server that started or adopted it; a transition by another server is
	// ErrConflict.
	//
	// A run that starts in a container is refused with ErrClaimEnded unless the
	// claim of the event is active or, without a claim, the container is idle, and
	// with ErrClaimPending before that. The lock on that record serializes it with
	// the flows of the container.
	//
	// A delivery that has ended can become live again only while the log has its
	// event; else ErrEventRemoved.
	UpdateDelivery(ctx context.Context, t Transition) (Permission, error)
	// StartTest adds the run of a test in state Running, if its claim is active and
	// has the container; else ErrClaimEnded or ErrClaimPending. While a run of a test
	// of the claim is running it returns ErrTestRunning. The next flow of the
	// container waits for the run. RunEnded ends it, and RunSkipped adds one that was
	// skipped, as hooks.Recorder specifies.
	StartTest(ctx context.Context, r hooks.Run) (Permission, error)
	RunEnded(ctx context.Context, r hooks.Run) error
	RunSkipped(ctx context.Context, r hooks.Run) error
	// AdoptDelivery makes this server the owner of a delivery in state Running,
	// whose attempt r is, or returns ErrConflict. isPermitted is false for a command
	// that must not run any longer: that could not start now.
	AdoptDelivery(ctx context.Context, r hooks.Run) (isPermitted bool, err error)
	// Event returns the event with a number, or ErrEventRemoved.
	Event(ctx context.Context, seq int64) (activity.Event, error)
	// Delivery returns one delivery, or ErrNotFound.
	Delivery(ctx context.Context, id string) (Delivery, error)
	// Deliveries lists the matching deliveries by id.
	Deliveries(ctx context.Context, f Filter) ([]Delivery, error)
	// FirstDelivery returns the first live delivery of a key, or ErrNotFound.
	FirstDelivery(ctx context.Context, k Key) (Delivery, error)
	// DeliveryKeys lists the keys that have live deliveries.
	DeliveryKeys(ctx context.Context) ([]Key, error)
}
