package pool

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// How many containers are destroyed at once, in all and of one workload: slow
// pre_destroy hooks of one must not hold up the others.
const (
	parallelDestroys    = 16
	destroysPerWorkload = 8
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
	// working is how many of each workload are being destroyed.
	working map[string]int
	again   map[string]retry
}

type retry struct {
	failures int
	at       time.Time
}

// NewRemover returns a remover; gone is called after each removal.
func NewRemover(store Containers, catalog *Catalog, maker *Maker, gone func(workload string), log *slog.Logger) *Remover {
	return &Remover{
		store: store, catalog: catalog, maker: maker, gone: gone, log: log, wake: make(chan struct{}, 1),
		busy: map[string]bool{}, working: map[string]int{}, again: map[string]retry{},
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
	if r.working[workload] >= destroysPerWorkload || len(r.busy) >= parallelDestroys {
		return time.Time{}, false
	}
	r.working[workload]++
	r.busy[id] = true
	return time.Time{}, true
}

// remove destroys one container; a failure is tried again later, for ever.
func (r *Remover) remove(ctx context.Context, c Container) {
	err := r.destroy(ctx, c)
	r.mu.Lock()
	delete(r.busy, c.ID)
	if r.working[c.Workload]--; r.working[c.Workload] == 0 {
		delete(r.working, c.Workload)
	}
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
func (r *Remover) destroy(ctx context.Context, c Container) error {
	now, err := r.store.Container(ctx, c.ID)
	if err != nil || now.State != Destroying {
		return err
	}
	w, _, err := r.catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil {
		// Without its workload there are no hooks to run. It goes all the same.
		r.log.Warn("a container is destroyed without its hooks", "container", c.ID, "error", err)
	}
	return r.maker.destroy(ctx, now, w)
}
