package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/runtime"
)

// Watcher detects containers that exit or disappear: immediately while it
// watches the engine, and by comparison when it starts and whenever the engine
// is available again.
type Watcher struct {
	store     watcherStore
	rt        runtime.Runtime
	outputs   *outputReader
	beginLoss func(Container) (end func(*Container))
	log       *slog.Logger

	connected chan struct{}        // holds one signal: the watch has begun
	unknown   map[string]time.Time // since when containers have no record; of the goroutine that reconciles
	removals  *workqueue.Queue[containerKey]
	exits     *workqueue.Queue[runtime.Exit] // those to record: the engine may be slow to return the output
	removing  sync.Map                       // the orphans whose removal is on record
	// changes counts what may have changed records of containers. compared are those that
	// were compared with the engine's containers running, and nothing was found. Both
	// are of the goroutine that reconciles, but for changes.
	changes  atomic.Int64
	compared int64
	running  map[string]reported
}

// reported is what the engine's list reports of a container.
type reported struct {
	state     runtime.State
	condition runtime.Condition
}

// watcherStore is what the Watcher needs from the database.
type watcherStore interface {
	Containers
	EventLog
}

// NewWatcher returns a Watcher; it calls beginLoss before it records an exit.
func NewWatcher(store watcherStore, outputs *outputReader, beginLoss func(Container) (end func(*Container)), log *slog.Logger) *Watcher {
	return &Watcher{
		store: store, rt: outputs.rt, outputs: outputs, beginLoss: beginLoss, log: log, connected: make(chan struct{}, 1), unknown: map[string]time.Time{},
		removals: workqueue.New(workqueue.Options[containerKey]{
			Group: containerKey.group, PerGroup: destroysPerWorkload, Reserved: reservedDestroys, Backoff: reconnects, Log: log,
		}),
		exits: workqueue.New(workqueue.Options[runtime.Exit]{
			// Containers that do not respond must not keep exits from being recorded.
			Group: func(d runtime.Exit) string { return string(d.Condition) }, PerGroup: parallelExits,
			Backoff: storeRetries, Log: log,
		}),
	}
}

// reconnects is the backoff between attempts to reconnect.
var reconnects = backoff.Policy{Min: minBackoff / 4, Max: 10 * time.Second, Jitter: jitter}

// reconcileInterval is how often the engine's containers are listed while it is
// available: a call to the engine may take effect long after its
// caller has timed out. They are compared with the database if either has changed. It is longer than orphanGrace, so that each comparison
// removes the orphans that the previous one has found.
const reconcileInterval = 30 * time.Second

// The engine may take this long to list all containers, and to describe one. A
// call about one container may be blocked in the engine, and that must not keep
// the server from detecting what happens to the others.
const (
	listTimeout   = 2 * time.Minute
	statusTimeout = 30 * time.Second
)

var (
	errListTimeout   = fmt.Errorf("%w: no list of containers within %s", runtime.ErrUnavailable, listTimeout)
	errStatusTimeout = fmt.Errorf("%w: no status within %s", runtime.ErrUnavailable, statusTimeout)
)

// Run watches until ctx ends. It reconnects to an engine that is unavailable.
func (w *Watcher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.watch(ctx) })
	g.Go(func() error { return w.runReconcile(ctx) })
	g.Go(func() error { w.exits.Run(ctx, 2*parallelExits, w.handleExit); return nil })
	g.Go(func() error { w.removals.Run(ctx, parallelDestroys, w.removeOrphan); return nil })
	return g.Wait()
}

// runReconcile reconciles after each reconnect and every reconcileInterval. Exits
// are reported while it waits for the engine.
func (w *Watcher) runReconcile(ctx context.Context) error {
	wait, retries := reconcileInterval, reconnects.Retries()
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.connected:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
		err := w.reconcile(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait = reconcileInterval
		if err == nil {
			retries.Reset()
			continue
		}
		wait = retries.Next()
		w.log.Warn("reconciling engine with database failed; retrying", "wait", wait, "error", err)
	}
}

// watch watches the engine and has it reconciled after each reconnect.
func (w *Watcher) watch(ctx context.Context) error {
	retries := reconnects.Retries()
	for {
		err := w.rt.Watch(ctx,
			func() {
				retries.Reset()
				select {
				case w.connected <- struct{}{}:
				default:
				}
			},
			w.addExit)
		if ctx.Err() != nil {
			return nil
		}
		wait := retries.Next()
		w.log.Warn("engine watch lost; reconnecting", "wait", wait, "error", err)
		if flow.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// reconcile compares the engine's containers with the database. A container of
// Hostler that is recorded as destroyed, or has no record for orphanGrace, is
// removed. One that should run and does not is handled as exited. A container
// is removed only if the engine lists it with Hostler's label and it has no
// live row.
func (w *Watcher) reconcile(ctx context.Context) error {
	// The engine is read first: a container that is created in between has its
	// row before it exists, so it is never mistaken for an orphan.
	listed, err := w.list(ctx)
	if err != nil {
		return fmt.Errorf("list the engine's containers: %w", err)
	}
	byID, states := make(map[string]runtime.Status, len(listed)), make(map[string]reported, len(listed))
	for _, s := range listed {
		byID[s.ID], states[s.ID] = s, reported{s.State, s.Condition}
	}
	changes := w.changes.Load() // before the records are read
	if w.running != nil && changes == w.compared && maps.Equal(states, w.running) {
		return nil
	}
	var errs error
	isSame := true
	rows, err := w.store.Containers(ctx, ContainerFilter{States: []State{Idle, Claimed}})
	if err != nil {
		return fmt.Errorf("list the containers: %w", err)
	}
	for _, c := range rows {
		s, ok := byID[c.ID]
		if c.Health == Exited {
			continue
		}
		if ok && s.State == runtime.Running {
			if condition := missedCondition(c, s.Condition); condition != "" {
				isSame = false
				w.addExit(runtime.Exit{ID: c.ID, Condition: condition})
			}
			continue
		}
		isSame = false
		// It may have been created, or started again, after the list was read.
		// Only the status reports whether it ran out of memory.
		status, err := w.status(ctx, c.ID)
		switch {
		case err == nil && status.State == runtime.Running:
			continue
		case err == nil:
			s = status
		case !ok && !errors.Is(err, runtime.ErrNotFound):
			errs = errors.Join(errs, fmt.Errorf("read the status of container %s: %w", c.ID, err))
			continue
		}
		w.addExit(runtime.Exit{ID: c.ID, ExitCode: s.ExitCode, OOMKilled: s.OOMKilled})
	}
	for _, s := range listed {
		isOrphan, err := w.checkOrphan(ctx, s)
		errs = errors.Join(errs, err)
		isSame = isSame && !isOrphan
	}
	maps.DeleteFunc(w.unknown, func(id string, _ time.Time) bool { return byID[id].ID == "" })
	if w.running = nil; isSame && errs == nil {
		w.running, w.compared = states, changes
	}
	return errs
}

// list is runtime.Runtime.List with a timeout.
func (w *Watcher) list(ctx context.Context) ([]runtime.Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	return w.rt.List(ctx)
}

// status is runtime.Runtime.Status with a timeout.
func (w *Watcher) status(ctx context.Context, id string) (runtime.Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, errStatusTimeout)
	defer cancel()
	return w.rt.Status(ctx, id)
}

// parallelExits is how many exits, and how many of each condition, are recorded
// concurrently.
const parallelExits = 16

// addExit has an exit handled. It never blocks. An exit that is detected twice is one.
func (w *Watcher) addExit(d runtime.Exit) {
	d.Time = time.Time{}
	w.exits.Add(d)
}

// handleExit handles an exit: an idle container is replaced; a claimed one is
// reported and belongs to its tenant until it is released. If the container is
// being created or destroyed, that flow detects the exit. If its state has changed in
// the meantime, it is handled again. Until it is recorded, a server that starts again
// detects it.
func (w *Watcher) handleExit(ctx context.Context, t *workqueue.Task[runtime.Exit]) error {
	record := w.recordExit
	if t.Key.Condition != "" {
		record = w.recordCondition
	}
	err := retryWrite(ctx, func(ctx context.Context) error { return record(ctx, t.Key) })
	if errors.Is(err, ErrConflict) {
		return err
	}
	if err != nil && !isConflict(err) && ctx.Err() == nil {
		w.log.Error("recording container exit failed", "container", t.Key.ID, "error", err)
	}
	return nil
}

// recordExit records an exit, unless it is on record or the container has ended.
func (w *Watcher) recordExit(ctx context.Context, d runtime.Exit) error {
	c, err := w.store.Container(ctx, d.ID)
	if err != nil || (c.State != Idle && c.State != Claimed) || c.Health == Exited {
		return err
	}
	if w.rt.Protocols().IsNewer(c.Protocol) {
		return nil // a newer server detects the exit, too
	}
	cause := exitErrorOf(d.ExitCode, d.OOMKilled)
	end := w.beginLoss(c)
	f, err := w.saveExit(ctx, c, cause, activity.ContainerDiedData{ExitCode: d.ExitCode, OOMKilled: d.OOMKilled})
	if err != nil {
		end(nil)
		return err
	}
	c.Reason = f.reason
	end(&c)
	return nil
}

// saveExit records an exit, with the output of the container.
func (w *Watcher) saveExit(ctx context.Context, c Container, cause error, data activity.ContainerDiedData) (failure, error) {
	o, state := w.outputs.read(ctx, c, nil)
	f := newFailure(c, cause, o, state)
	_, err := w.store.UpdateContainer(ctx, f.record(BeginDestroy(c.ID, []State{Idle}, f.reason, exitEvent(f, data))))
	if !isConflict(err) {
		return f, err
	}
	// A claim has it, perhaps since the output was read, and has wiped it.
	if c, err = w.store.Container(ctx, c.ID); err != nil {
		return f, err
	}
	o, state = w.outputs.read(ctx, c, nil)
	f = newFailure(c, cause, o, state)
	_, err = w.store.UpdateContainer(ctx, f.record(Note(c.ID, Claimed, func(c *Container) { c.Health, c.Reason = Exited, f.reason }, exitEvent(f, data))))
	return f, err
}

// exitEvent returns the event of an exit, with what the failure has of the output.
func exitEvent(f failure, data activity.ContainerDiedData) activity.Event {
	data.Output, _ = f.excerpts()
	return activity.Event{Type: activity.ContainerDied, Message: "container exited: " + f.reason, Data: activity.Data(data)}
}
