package fake

import (
	"context"
	"sync"

	"github.com/hostler/hostler/runtime"
)

// events passes exits to the watchers.
type events struct {
	// mu guards what follows, and every watcher's queue.
	mu       sync.Mutex
	watchers map[*watcher]bool
}

// watcher is one call of Watch. Its queue is unbounded: a slow watcher blocks no
// container, and misses nothing.
type watcher struct {
	queue      []runtime.Exit
	engineDown bool
	wake       chan struct{}
}

func (e *events) subscribe() *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers == nil {
		e.watchers = make(map[*watcher]bool)
	}
	e.watchers[w] = true
	return w
}

func (e *events) unsubscribe(w *watcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.watchers, w)
}

// drain empties a watcher's queue, and reports whether its engine is lost.
func (e *events) drain(w *watcher) ([]runtime.Exit, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	exits := w.queue
	w.queue = nil
	return exits, w.engineDown
}

func (e *events) publish(d runtime.Exit) {
	e.notifyAll(func(w *watcher) { w.queue = append(w.queue, d) })
}

func (e *events) markLost() {
	e.notifyAll(func(w *watcher) { w.engineDown = true })
}

func (e *events) notifyAll(change func(*watcher)) {
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

// Watch reports exits until ctx ends or the engine becomes unavailable.
func (rt *Runtime) Watch(ctx context.Context, ready func(), onExit func(runtime.Exit)) error {
	err := rt.call(ctx, Call{Op: "watch"}, func() error { return rt.watch(ctx, ready, onExit) })
	if ctx.Err() == nil {
		return err
	}
	return nil // the end of its context is not an error
}

func (rt *Runtime) watch(ctx context.Context, ready func(), onExit func(runtime.Exit)) error {
	w := rt.events.subscribe()
	defer rt.events.unsubscribe(w)
	// An engine that becomes unavailable between the check and the registration
	// notifies no watcher.
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
		exits, lost := rt.events.drain(w)
		for _, d := range exits {
			onExit(d)
		}
		if lost {
			return runtime.ErrUnavailable
		}
	}
}
