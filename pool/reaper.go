package pool

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// How many containers are destroyed concurrently, in total and of one workload:
// slow pre_destroy hooks of one workload must not block the others. Containers
// in their grace period need only a connection to the engine and have their own
// limits.
const (
	parallelDestroys    = 16
	destroysPerWorkload = 8
	parallelStops       = 512
	stopsPerWorkload    = 128
)

// Reaper destroys every container in state Destroying. To destroy a container,
// a caller records the transition (BeginDestroy) and wakes the reaper: a crash
// between the two loses nothing.
type Reaper struct {
	store       Containers
	catalog     *Catalog
	provisioner *Provisioner
	onDestroyed func(workload string)
	log         *slog.Logger
	wake        chan struct{}

	mu   sync.Mutex // guards the fields below
	busy map[string]bool
	// working counts the busy containers of each workload whose main process is
	// not being stopped yet; stopping counts the others.
	working  perWorkload
	stopping perWorkload
	retries  map[string]retryState
}

// perWorkload is the number of containers of each workload.
type perWorkload map[string]int

func (t perWorkload) add(workload string, n int) {
	if t[workload] += n; t[workload] == 0 {
		delete(t, workload)
	}
}

func (t perWorkload) total() int {
	sum := 0
	for _, n := range t {
		sum += n
	}
	return sum
}

type retryState struct {
	failures int
	at       time.Time
}

// NewReaper returns a Reaper; it calls onDestroyed after each removal.
func NewReaper(store Containers, catalog *Catalog, provisioner *Provisioner, onDestroyed func(workload string), log *slog.Logger) *Reaper {
	return &Reaper{
		store: store, catalog: catalog, provisioner: provisioner, onDestroyed: onDestroyed, log: log, wake: make(chan struct{}, 1),
		busy: map[string]bool{}, working: perWorkload{}, stopping: perWorkload{}, retries: map[string]retryState{},
	}
}

// Wake requests a check for containers to be destroyed. It never blocks.
func (r *Reaper) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run destroys containers until ctx ends. It returns when no removal is running.
func (r *Reaper) Run(ctx context.Context) error {
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // the functions return nil
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	r.Wake()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-timer.C:
		}
		destroying, err := r.store.Containers(ctx, ContainerFilter{States: []State{Destroying}})
		if err != nil {
			if ctx.Err() == nil {
				r.log.Error("listing containers to be destroyed failed; retrying", "error", err)
			}
			timer.Reset(minBackoff)
			continue
		}
		next := time.Now().Add(time.Hour)
		for _, c := range destroying {
			if r.provisioner.rt.Protocols().IsNewer(c.Protocol) {
				continue // a newer server removes it
			}
			if at, ok := r.tryStart(c.ID, c.Workload); !ok {
				if at.Before(next) && !at.IsZero() {
					next = at
				}
				continue
			}
			g.Go(func() error { r.reap(ctx, c); return nil })
		}
		timer.Reset(time.Until(next))
	}
}

// tryStart reports whether the container may be destroyed now. If a recent
// attempt failed, it returns the time of the next one.
func (r *Reaper) tryStart(id, workload string) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[id] {
		return time.Time{}, false // its end wakes the loop
	}
	if k, ok := r.retries[id]; ok && time.Now().Before(k.at) {
		return k.at, false
	}
	if r.working[workload] >= destroysPerWorkload || r.working.total() >= parallelDestroys ||
		r.stopping[workload] >= stopsPerWorkload || r.stopping.total() >= parallelStops {
		return time.Time{}, false
	}
	r.working.add(workload, 1)
	r.busy[id] = true
	return time.Time{}, true
}

// reap destroys one container; failures are retried indefinitely.
func (r *Reaper) reap(ctx context.Context, c Container) {
	phase := r.working // changed to stopping with mu held
	err := r.destroy(ctx, c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		phase.add(c.Workload, -1)
		phase = r.stopping
		phase.add(c.Workload, 1)
		r.Wake()
	})
	r.mu.Lock()
	delete(r.busy, c.ID)
	phase.add(c.Workload, -1)
	if err == nil {
		delete(r.retries, c.ID)
	} else {
		k := r.retries[c.ID]
		k.failures++
		k.at = time.Now().Add(min(minBackoff<<min(k.failures-1, 16), maxBackoff))
		r.retries[c.ID] = k
	}
	r.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			r.log.Warn("destroying container failed; retrying", "container", c.ID, "error", err)
		}
		r.Wake()
		return
	}
	r.onDestroyed(c.Workload)
}

// destroy tries once. The list with the container may be older than its
// destruction.
func (r *Reaper) destroy(ctx context.Context, c Container, onStopping func()) error {
	current, err := r.store.Container(ctx, c.ID)
	if err != nil || current.State != Destroying {
		return err
	}
	w, _, err := r.catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil {
		// Without the workload there are no hooks to run.
		r.log.Warn("reading workload failed; destroying container without hooks", "container", c.ID, "error", err)
	}
	return r.provisioner.destroy(ctx, current, w, onStopping)
}
