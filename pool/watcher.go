package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// Watcher notices containers that die or disappear, at once, and those that
// did so while nobody watched, when it begins and whenever the engine is back.
type Watcher struct {
	store  watcherStore
	rt     runtime.Runtime
	onExit func(Container)
	log    *slog.Logger

	reconcileMu sync.Mutex // compares at a time
	orphans     map[string]*orphan
}

// watcherStore is what the watcher needs of the database.
type watcherStore interface {
	Containers
	EventLog
}

// NewWatcher returns a watcher; died is called after each change it makes.
func NewWatcher(store watcherStore, rt runtime.Runtime, onExit func(Container), log *slog.Logger) *Watcher {
	return &Watcher{store: store, rt: rt, onExit: onExit, log: log, orphans: map[string]*orphan{}}
}

// maxReconnectBackoff bounds the wait between two tries to reach a lost engine.
const maxReconnectBackoff = 10 * time.Second

// reconcileInterval is how often engine and database are compared while nothing is
// lost: a call to the engine may take effect long after whoever made it was
// given up. It is longer than orphanGrace, so that the next comparison removes
// what one has found.
const reconcileInterval = 30 * time.Second

// Run watches until ctx ends. An engine that is lost is tried again.
func (w *Watcher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.watch(ctx) })
	g.Go(func() error {
		for flow.Sleep(ctx, reconcileInterval) == nil {
			if err := w.Reconcile(ctx); err != nil && ctx.Err() == nil {
				w.log.Warn("compare the engine's containers with the database", "error", err)
			}
		}
		return nil
	})
	return g.Wait()
}

// watch watches and, whenever the engine was lost, compares.
func (w *Watcher) watch(ctx context.Context) error {
	backoff := minBackoff / 4
	for {
		// A comparison that fails ends the watch: both are begun again.
		watchCtx, cancel := context.WithCancelCause(ctx)
		err := w.rt.Watch(watchCtx,
			func() {
				if err := w.Reconcile(watchCtx); err != nil {
					cancel(fmt.Errorf("compare the engine's containers with the database: %w", err))
					return
				}
				backoff = minBackoff / 4
			},
			func(d runtime.Exit) { w.handleExit(ctx, d) })
		err = errors.Join(err, context.Cause(watchCtx))
		cancel(nil)
		if ctx.Err() != nil {
			return nil
		}
		w.log.Warn("the container engine is lost and is tried again", "wait", backoff, "error", err)
		if flow.Sleep(ctx, backoff) != nil {
			return nil
		}
		backoff = min(2*backoff, maxReconnectBackoff)
	}
}

// Reconcile compares what the engine has with what the database says: a
// container of ours that the database has given up, or goes on not knowing, is
// removed; one that should run and does not is treated as dead. The label that
// made the engine list it and the database must agree before anything is
// removed: a live row protects its container.
func (w *Watcher) Reconcile(ctx context.Context) error {
	w.reconcileMu.Lock()
	defer w.reconcileMu.Unlock()
	// What is there is asked first: a container that is made in between has
	// its row before it exists, so none of those is taken for an orphan.
	listed, err := w.rt.List(ctx)
	if err != nil {
		return fmt.Errorf("list the engine's containers: %w", err)
	}
	byID := make(map[string]runtime.Status, len(listed))
	for _, s := range listed {
		byID[s.ID] = s
	}
	var errs error
	rows, err := w.store.Containers(ctx, ContainerFilter{States: []State{Idle, Claimed}})
	if err != nil {
		return fmt.Errorf("list the containers: %w", err)
	}
	for _, c := range rows {
		s, ok := byID[c.ID]
		if ok && s.State == runtime.Running {
			continue
		}
		if !ok {
			// It may have been made after the list was taken.
			s, err = w.rt.Status(ctx, c.ID)
			if err == nil && s.State == runtime.Running {
				continue
			}
			if err != nil && !errors.Is(err, runtime.ErrNotFound) {
				errs = errors.Join(errs, fmt.Errorf("ask for container %s: %w", c.ID, err))
				continue
			}
		}
		w.handleExit(ctx, runtime.Exit{ID: c.ID, ExitCode: s.ExitCode, OOMKilled: s.OOMKilled})
	}
	for _, s := range listed {
		errs = errors.Join(errs, w.checkOrphan(ctx, s))
	}
	maps.DeleteFunc(w.orphans, func(id string, _ *orphan) bool { return byID[id].ID == "" })
	return errs
}

// handleExit acts on a death: an idle container is replaced, a claimed one is
// reported and stays its tenant's until released. One that is being made or
// destroyed is its flow's to notice.
func (w *Watcher) handleExit(ctx context.Context, d runtime.Exit) {
	var c Container
	recorded := false
	err := retryWrite(ctx, func(ctx context.Context) (err error) {
		c, recorded, err = w.recordExit(ctx, d)
		return err
	})
	if err != nil {
		if !isConflict(err) && ctx.Err() == nil {
			w.log.Error("record that a container died", "container", d.ID, "error", err)
		}
		return
	}
	if recorded {
		w.onExit(c)
	}
}

// recordExit writes a death down, and says whether there was anything to write.
func (w *Watcher) recordExit(ctx context.Context, d runtime.Exit) (Container, bool, error) {
	c, err := w.store.Container(ctx, d.ID)
	if err != nil || (c.State != Idle && c.State != Claimed) || c.Health == Exited {
		return c, false, err
	}
	if w.rt.Protocols().IsNewer(c.Protocol) {
		return c, false, nil // a newer server finds it dead, too
	}
	reason := fmt.Sprintf("its main process ended with exit code %d", d.ExitCode)
	if d.OOMKilled {
		reason = "it ran out of memory"
	}
	event := activity.Event{
		Type: activity.ContainerDied, Message: "container died: " + reason,
		Data: activity.Data(map[string]any{"exit_code": d.ExitCode, "oom_killed": d.OOMKilled}),
	}
	m := BeginDestroy(c.ID, []State{Idle}, reason)
	m.Events = append([]activity.Event{event}, m.Events...)
	_, err = w.store.UpdateContainer(ctx, m)
	if isConflict(err) {
		_, err = w.store.UpdateContainer(ctx, Transition{
			ID: c.ID, From: []State{Claimed}, To: Claimed,
			Set:    func(c *Container) { c.Health, c.Reason = Exited, reason },
			Events: []activity.Event{event},
		})
	}
	c.Reason = reason
	return c, err == nil, err
}
