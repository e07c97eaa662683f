package pool

import (
	"context"
	"time"

	"github.com/hostler/hostler/activity"
)

// Containers is what the pool needs of storage. Each call is one transaction:
// the change and its event are both durable when it returns nil, and neither
// happened when it does not.
type Containers interface {
	// AddContainer records a container that is about to be created, in state
	// Creating, with the event container.creating. Its Protocol is this server's.
	// It counts those of the workload that are not Gone as EffectiveSize does, and when
	// there are max or more already it is ErrFull and changes nothing. With claim set
	// the container is reserved for that pending claim at once.
	AddContainer(ctx context.Context, c Container, max int) error
	// UpdateContainer makes a change, if the container is still in one of the
	// states m.From; if not, it is ErrConflict. That of a newer server is
	// runtime.ErrNewer. It returns the new record. The hook runs of a container
	// that becomes Gone and that are on record as running end with it, as unknown.
	UpdateContainer(ctx context.Context, m Transition) (Container, error)
	// Container is one record, Gone or not; ErrContainerNotFound.
	Container(ctx context.Context, id string) (Container, error)
	// Containers lists the records that match, oldest first.
	Containers(ctx context.Context, f ContainerFilter) ([]Container, error)
	// Counts counts the workload's containers that are not Gone, by what they
	// have in common. It is cheap however many there are.
	Counts(ctx context.Context, workload string) ([]Count, error)
	// Waiting is how many claims of the workload wait for a container with
	// other servers.
	Waiting(ctx context.Context, workload string) (int, error)
	// Kept is how many containers of the workload are held by claims whose
	// release has failed and has not succeeded since.
	Kept(ctx context.Context, workload string) (int, error)
}

// EffectiveSize is how many of a pool's containers count against its bound max: those
// that hold what could not be kept do not, but for what is more than max.
func EffectiveSize(total, kept, maxSize int) int { return total - min(kept, maxSize) }

// EventLog is where things are told that change no record.
type EventLog interface {
	// Append writes the events, all or none; Seq and Time are filled in.
	Append(ctx context.Context, events ...activity.Event) error
}

// Count is how many containers have these things in common.
type Count struct {
	Revision string
	Protocol int
	State    State
	Used     bool // a tenant's data may be in them
	Healthy  bool // neither unhealthy nor dead
	N        int
}

// Transition is a change of one container.
type Transition struct {
	ID   string
	From []State // never empty
	To   State   // may be the same as before, to change only what follows
	// Set changes the record beyond its state; it runs within the transaction,
	// must be quick and must not block. nil changes nothing.
	Set func(*Container)
	// Events tell of the change. Workload, Container, Tenant and Claim are
	// filled in from the record as it was before the change.
	Events []activity.Event
}

// ContainerFilter says which containers to list. Empty fields match all.
type ContainerFilter struct {
	Workload string
	Tenant   string
	States   []State // empty: all but Gone
	After    string  // ids after this one, in order of id
	Limit    int     // 0: no limit
}

// Record is what storage keeps of an applied workload.
type Record struct {
	ID       string
	Revision string
	Source   []byte // the file as given
	Dir      string // the folder that its seeds are relative to; empty for none
	MinIdle  int    // as the file says, or as scaled since
	MaxSize  int
	// Draining says that no container is made and none may be claimed.
	Draining bool
	// Deleting says that the record goes when its last container is gone.
	Deleting  bool
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Workloads is what the pool needs of storage about workloads.
type Workloads interface {
	// PutWorkload adds or replaces the record, keeps its source under its
	// revision for as long as a container has that revision, and writes the
	// events. r.UpdatedAt is what was read, zero for a record that is not
	// there; when somebody else has written it since, it is ErrConflict.
	PutWorkload(ctx context.Context, r Record, events ...activity.Event) error
	// Workload is one record; ErrWorkloadNotFound.
	Workload(ctx context.Context, id string) (Record, error)
	// Workloads lists all records by id.
	Workloads(ctx context.Context) ([]Record, error)
	// Revision is the source and the seed folder of a revision that is current
	// or has containers; ErrWorkloadNotFound.
	Revision(ctx context.Context, workload, revision string) (Record, error)
	// RemoveWorkload removes the record of a workload that is Deleting and has
	// no container but Gone ones, with the event. With containers left it is
	// ErrInUse; one that is not Deleting, or not there, is ErrWorkloadNotFound.
	RemoveWorkload(ctx context.Context, id string, events ...activity.Event) error
}
