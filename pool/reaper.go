package pool

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/workqueue"
)

// How many containers are destroyed concurrently, in total and of one workload,
// and how many slots are left to workloads of which none is being destroyed: slow
// pre_destroy hooks of some workloads must not block the others. Containers
// in their grace period need only a connection to the engine and have their own
// limits.
const (
	parallelDestroys    = 16 + reservedDestroys
	destroysPerWorkload = 8
	reservedDestroys    = 4
	parallelStops       = 512
	stopsPerWorkload    = 128
)

// Reaper destroys every container in state Destroying, and every claimed one
// whose destruction is forced. To destroy a container, a caller records the
// transition (BeginDestroy), whose event wakes the reaper.
type Reaper struct {
	store       Containers
	catalog     *Catalog
	provisioner *Provisioner
	log         *slog.Logger
	lists       *workqueue.Loop // of the containers to be destroyed
	removals    *workqueue.Queue[containerKey]
}

// containerKey is a container in a queue whose groups are the workloads.
type containerKey struct{ workload, id string }

func (k containerKey) group() string { return k.workload }

// NewReaper returns a Reaper; it destroys nothing before Run.
func NewReaper(store Containers, catalog *Catalog, provisioner *Provisioner, log *slog.Logger) *Reaper {
	r := &Reaper{
		store: store, catalog: catalog, provisioner: provisioner, log: log,
		removals: workqueue.New(workqueue.Options[containerKey]{
			Group: containerKey.group, PerGroup: destroysPerWorkload, Reserved: reservedDestroys,
			Parked: parallelStops, ParkedPerGroup: stopsPerWorkload, Backoff: engineRetries, Log: log,
		}),
	}
	r.lists = workqueue.NewLoop("listing containers to be destroyed", r.list, storeRetries, log)
	return r
}

// Wake requests a check for containers to be destroyed. It never blocks.
func (r *Reaper) Wake() { r.lists.Wake() }

// Run destroys containers until ctx ends. It returns when no removal is running.
func (r *Reaper) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return r.lists.Run(ctx) })
	g.Go(func() error { r.removals.Run(ctx, parallelDestroys, r.reap); return nil })
	return g.Wait()
}

// list requests the removal of all containers that are to be destroyed.
func (r *Reaper) list(ctx context.Context) (never time.Time, err error) {
	destroying, err := r.store.Containers(ctx, ContainerFilter{States: []State{Destroying}})
	forced, forcedErr := r.store.Containers(ctx, ContainerFilter{IsForced: true})
	for _, c := range append(destroying, forced...) {
		if !r.provisioner.rt.Protocols().IsNewer(c.Protocol) { // a newer server removes its own
			r.removals.Add(containerKey{c.Workload, c.ID})
		}
	}
	return never, errors.Join(err, forcedErr)
}

// reap destroys one container. A failure is retried indefinitely.
func (r *Reaper) reap(ctx context.Context, t *workqueue.Task[containerKey]) error {
	if err := r.destroy(ctx, t.Key.id, t.Park); err != nil {
		if ctx.Err() == nil {
			r.log.Warn("destroying container failed; retrying", "container", t.Key.id, "error", err)
		}
		return err
	}
	return nil
}

// destroy tries once. The list with the container may be older than its
// destruction.
func (r *Reaper) destroy(ctx context.Context, id string, onStopping func()) error {
	c, err := r.store.Container(ctx, id)
	if errors.Is(err, ErrContainerNotFound) {
		return nil // it was destroyed long ago
	}
	if err != nil || !c.IsDue() {
		return err
	}
	w, _, err := r.catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil && c.Forced != ForcedNow && !errors.Is(err, ErrWorkloadNotFound) && !errors.Is(err, errUnreadable) {
		return err // its hooks are not known yet
	}
	if err != nil {
		// Without the workload there are no hooks to run.
		r.log.Warn("reading workload failed; destroying container without hooks", "container", c.ID, "error", err)
	}
	if c.State == Claimed {
		return r.provisioner.force(ctx, c, w, onStopping)
	}
	return r.provisioner.destroy(ctx, c, w, onStopping)
}
