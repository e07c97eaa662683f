package pool

import (
	"context"
	"time"

	"github.com/hostler/hostler/activity"
)

// Containers is the store of container records. Each call is one transaction:
// if it returns nil, the change and its event are durable; otherwise neither
// happened.
type Containers interface {
	// AddContainer records a container that is about to be created, in state
	// Creating, with the event container.creating. Its Protocol is this server's.
	// If the EffectiveSize of the workload's pool is max or more, it returns
	// ErrFull. If the workload was removed, or has no such revision since it was
	// applied again, it returns ErrWorkloadNotFound: nothing would ever destroy the
	// container, or its hooks would be lost. Then it changes nothing. If c.Claim is
	// set, the container is reserved for that pending claim in the same transaction.
	AddContainer(ctx context.Context, c Container, max int) error
	// UpdateContainer performs a transition and returns the new record. It returns
	// ErrConflict if the container is not in one of the states m.From or m.If is false, and
	// runtime.ErrNewer if a newer server created it. When a container becomes
	// Destroyed, its running hook runs are recorded as unknown. A change of state
	// that State.CanBecome does not allow is an error of the program and changes
	// nothing.
	UpdateContainer(ctx context.Context, m Transition) (Container, error)
	// Container returns one record in any state, or ErrContainerNotFound.
	Container(ctx context.Context, id string) (Container, error)
	// Containers lists the matching records, oldest first.
	Containers(ctx context.Context, f ContainerFilter) ([]Container, error)
	// Counts counts the workload's containers that are not Destroyed, grouped by
	// the other fields of Count. Its cost does not depend on their number.
	Counts(ctx context.Context, workload string) ([]Count, error)
	// Waiting returns how many claims of the workload wait for a container on
	// other servers.
	Waiting(ctx context.Context, workload string) (int, error)
	// Kept returns how many containers of the workload belong to claims whose
	// release has failed and has not succeeded since.
	Kept(ctx context.Context, workload string) (int, error)
}

// EffectiveSize returns how many of a pool's containers count towards max_size.
// Up to maxSize containers whose release has failed do not count.
func EffectiveSize(total, kept, maxSize int) int { return total - min(kept, maxSize) }

// EventLog records events that do not belong to a change of a record.
type EventLog interface {
	// Append writes the events, all or none; Seq and Time are filled in.
	Append(ctx context.Context, events ...activity.Event) error
}

// Count is the number of containers that have these fields in common.
type Count struct {
	Revision string
	Protocol int
	State    State
	Used     bool // a tenant's data may be in them
	Healthy  bool // neither unhealthy nor exited
	N        int
}

// ContainerFilter selects the containers to list. An empty field matches all.
type ContainerFilter struct {
	Workload string
	Tenant   string
	States   []State // empty: all but Destroyed
	IsForced bool    // only those that are Forced and not removed yet
	// IsTerminating selects those of which that is on record: Container.IsTerminating.
	IsTerminating bool
	// NoWorkload selects those whose workload has no record. There are none, unless
	// an older server has added them.
	NoWorkload bool
	After      string // only ids greater than this one
	IDPart     string // only ids that begin or end with it
	Newest     bool   // in the reverse order; After: only ids less than this one
	Limit      int    // 0: no limit
	// Scope is what the reader may see. nil: everything.
	Scope *activity.Scope
}

// Record is the record of an applied workload.
type Record struct {
	ID       string
	Revision string
	Source   []byte // the file as given
	Dir      string // the directory that its seeds are relative to; empty for none
	MinIdle  int    // as in the file, or as scaled since
	MaxSize  int
	// Draining reports whether containers may be neither created nor claimed.
	Draining bool
	// EventHooks has the names of the event hooks, each with the number of the last
	// event that was recorded before the hook was applied, or NewEventHook.
	EventHooks map[string]int64
	// SharedMemory reports whether tenants share the workload's memory.
	SharedMemory bool
	// Deleting reports whether the record is removed with its last container and
	// delivery.
	Deleting  bool
	CreatedAt time.Time
	UpdatedAt time.Time
}

// NewEventHook stands for the number of the last event when a record is put with
// a new event hook.
const NewEventHook = -1

// Workloads is the store of workload records.
type Workloads interface {
	// PutWorkload adds or replaces the record, keeps its source under its
	// revision for as long as a container has that revision, and writes the
	// events. r.UpdatedAt is the value that was read, zero for a new record; if
	// the record was written since, PutWorkload returns ErrConflict.
	PutWorkload(ctx context.Context, r Record, events ...activity.Event) error
	// Workload returns one record, or ErrWorkloadNotFound.
	Workload(ctx context.Context, id string) (Record, error)
	// Workloads lists all records by id.
	Workloads(ctx context.Context) ([]Record, error)
	// Revision returns the source and the seed directory of a revision that is
	// current or has containers, or ErrWorkloadNotFound.
	Revision(ctx context.Context, workload, revision string) (Record, error)
	// File returns the content of a workload file that was applied, by
	// workload.FileID, or ErrWorkloadNotFound. It stays while a point may be
	// resumed with it.
	File(ctx context.Context, workload, file string) ([]byte, error)
	// RemoveWorkload removes the record of a workload that is Deleting and has
	// only Destroyed containers, and writes the events. If it has others, or if
	// events are still to be delivered to its hooks, it returns ErrInUse; if it is not Deleting, or does not exist,
	// ErrWorkloadNotFound.
	RemoveWorkload(ctx context.Context, id string, events ...activity.Event) error
}

// Breakers is the store of the breakers of pools.
type Breakers interface {
	// Breaker returns the breaker of a workload; without failures if it has none
	// on record.
	Breaker(ctx context.Context, workload string) (Breaker, error)
	// UpdateBreaker changes the breaker of a workload's current revision and writes
	// the events that set returns, in one transaction. set may run more than once
	// and must not block. A breaker without failures is removed, and so is that of
	// a former revision.
	UpdateBreaker(ctx context.Context, workload string, set func(*Breaker) []activity.Event) error
}
