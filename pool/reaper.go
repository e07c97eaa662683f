package pool

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// How many containers are worked on at once, in all and of one workload: slow
// pre_destroy hooks of one must not hold up the others. Those that are given
// their time to end cost nothing but a connection to the engine, and do not
// count; they have bounds of their own.
const (
	parallelDestroys    = 16
	destroysPerWorkload = 8
	parallelStops       = 512
	stopsPerWorkload    = 128
)

// Reaper destroys every container that is in state Destroying. Whoever wants
// one gone records that (BeginDestroy) and wakes the remover: a crash between the
// two loses nothing.
type Reaper struct {
	store       Containers
	catalog     *Catalog
	provisioner *Provisioner
	onDestroyed func(workload string)
	log         *slog.Logger
	wake        chan struct{}

	mu   sync.Mutex // guards what follows
	busy map[string]bool
	// working and stopping are how many of each workload are before the stop of
	// their main process, and in it or beyond; together they are the busy ones.
	working  perWorkload
	stopping perWorkload
	retries  map[string]retryState
}

// perWorkload is how many containers there are of each workload.
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

// NewReaper returns a remover; gone is called after each removal.
func NewReaper(store Containers, catalog *Catalog, provisioner *Provisioner, onDestroyed func(workload string), log *slog.Logger) *Reaper {
	return &Reaper{
		store: store, catalog: catalog, provisioner: provisioner, onDestroyed: onDestroyed, log: log, wake: make(chan struct{}, 1),
		busy: map[string]bool{}, working: perWorkload{}, stopping: perWorkload{}, retries: map[string]retryState{},
	}
}

// Wake has the remover look soon. It never blocks.
func (r *Reaper) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run destroys until ctx ends, and returns when no removal is under way.
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
				r.log.Error("list the containers to be destroyed", "error", err)
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

// tryStart says whether the container may be worked on now, and if it failed
// lately, when it may.
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

// reap destroys one container; a failure is tried again later, for ever.
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
			r.log.Warn("a container could not be destroyed and is tried again", "container", c.ID, "error", err)
		}
		r.Wake()
		return
	}
	r.onDestroyed(c.Workload)
}

// destroy does it once. The list that named the container may be older than
// its end.
func (r *Reaper) destroy(ctx context.Context, c Container, onStopping func()) error {
	current, err := r.store.Container(ctx, c.ID)
	if err != nil || current.State != Destroying {
		return err
	}
	w, _, err := r.catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil {
		// Without its workload there are no hooks to run. It goes all the same.
		r.log.Warn("a container is destroyed without its hooks", "container", c.ID, "error", err)
	}
	return r.provisioner.destroy(ctx, current, w, onStopping)
}
