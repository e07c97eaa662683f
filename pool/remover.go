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

// Remover destroys every container that is in state Destroying. Whoever wants
// one gone records that (Condemn) and wakes the remover: a crash between the
// two loses nothing.
type Remover struct {
	store   Containers
	catalog *Catalog
	maker   *Maker
	gone    func(workload string)
	log     *slog.Logger
	wake    chan struct{}

	mu   sync.Mutex // guards what follows
	busy map[string]bool
	// working and stopping are how many of each workload are before the stop of
	// their main process, and in it or beyond; together they are the busy ones.
	working  perWorkload
	stopping perWorkload
	again    map[string]retry
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

type retry struct {
	failures int
	at       time.Time
}

// NewRemover returns a remover; gone is called after each removal.
func NewRemover(store Containers, catalog *Catalog, maker *Maker, gone func(workload string), log *slog.Logger) *Remover {
	return &Remover{
		store: store, catalog: catalog, maker: maker, gone: gone, log: log, wake: make(chan struct{}, 1),
		busy: map[string]bool{}, working: perWorkload{}, stopping: perWorkload{}, again: map[string]retry{},
	}
}

// Wake has the remover look soon. It never blocks.
func (r *Remover) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run destroys until ctx ends, and returns when no removal is under way.
func (r *Remover) Run(ctx context.Context) error {
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
		doomed, err := r.store.Containers(ctx, ContainerFilter{States: []State{Destroying}})
		if err != nil {
			if ctx.Err() == nil {
				r.log.Error("list the containers to be destroyed", "error", err)
			}
			timer.Reset(firstPause)
			continue
		}
		next := time.Now().Add(time.Hour)
		for _, c := range doomed {
			if r.maker.rt.Protocols().IsNewer(c.Protocol) {
				continue // a newer server removes it
			}
			if at, ok := r.begin(c.ID, c.Workload); !ok {
				if at.Before(next) && !at.IsZero() {
					next = at
				}
				continue
			}
			g.Go(func() error { r.remove(ctx, c); return nil })
		}
		timer.Reset(time.Until(next))
	}
}

// begin says whether the container may be worked on now, and if it failed
// lately, when it may.
func (r *Remover) begin(id, workload string) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[id] {
		return time.Time{}, false // its end wakes the loop
	}
	if k, ok := r.again[id]; ok && time.Now().Before(k.at) {
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

// remove destroys one container; a failure is tried again later, for ever.
func (r *Remover) remove(ctx context.Context, c Container) {
	in := r.working // changed to stopping with mu held
	err := r.destroy(ctx, c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		in.add(c.Workload, -1)
		in = r.stopping
		in.add(c.Workload, 1)
		r.Wake()
	})
	r.mu.Lock()
	delete(r.busy, c.ID)
	in.add(c.Workload, -1)
	if err == nil {
		delete(r.again, c.ID)
	} else {
		k := r.again[c.ID]
		k.failures++
		k.at = time.Now().Add(min(firstPause<<min(k.failures-1, 16), longestPause))
		r.again[c.ID] = k
	}
	r.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			r.log.Warn("a container could not be destroyed and is tried again", "container", c.ID, "error", err)
		}
		r.Wake()
		return
	}
	r.gone(c.Workload)
}

// destroy does it once. The list that named the container may be older than
// its end.
func (r *Remover) destroy(ctx context.Context, c Container, stopping func()) error {
	now, err := r.store.Container(ctx, c.ID)
	if err != nil || now.State != Destroying {
		return err
	}
	w, _, err := r.catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil {
		// Without its workload there are no hooks to run. It goes all the same.
		r.log.Warn("a container is destroyed without its hooks", "container", c.ID, "error", err)
	}
	return r.maker.destroy(ctx, now, w, stopping)
}
