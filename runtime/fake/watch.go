package fake

import (
	"context"
	"sync"

	"github.com/hostler/hostler/runtime"
)

// events hands deaths to whoever watches.
type events struct {
	// mu guards what follows, and every watcher's queue.
	mu       sync.Mutex
	watchers map[*watcher]bool
}

// watcher is one call of Watch. Its queue has no bound: a slow watcher holds
// up no container, and misses nothing.
type watcher struct {
	queue []runtime.Death
	lost  bool
	wake  chan struct{}
}

func (e *events) join() *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers == nil {
		e.watchers = make(map[*watcher]bool)
	}
	e.watchers[w] = true
	return w
}

func (e *events) leave(w *watcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.watchers, w)
}

// take empties a watcher's queue, and says whether its engine is lost.
func (e *events) take(w *watcher) ([]runtime.Death, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	deaths := w.queue
	w.queue = nil
	return deaths, w.lost
}

func (e *events) publish(d runtime.Death) {
	e.tell(func(w *watcher) { w.queue = append(w.queue, d) })
}

func (e *events) lose() {
	e.tell(func(w *watcher) { w.lost = true })
}

func (e *events) tell(change func(*watcher)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.watchers {
		change(w)
		select {
		case w.wake <- struct{}{}:
		default: // it is awake already
		}
	}
}

// Watch reports deaths until ctx ends or the engine goes down.
func (rt *Runtime) Watch(ctx context.Context, ready func(), died func(runtime.Death)) error {
	err := rt.call(ctx, Call{Op: "watch"}, func() error { return rt.watch(ctx, ready, died) })
	if ctx.Err() == nil {
		return err
	}
	return nil // that it ends with its context is no fault
}

func (rt *Runtime) watch(ctx context.Context, ready func(), died func(runtime.Death)) error {
	w := rt.events.join()
	defer rt.events.leave(w)
	// An engine that goes down between the check and the joining tells
	// nobody.
	if rt.down.Load() {
		return runtime.ErrUnavailable
	}
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		deaths, lost := rt.events.take(w)
		for _, d := range deaths {
			died(d)
		}
		if lost {
			return runtime.ErrUnavailable
		}
	}
}
