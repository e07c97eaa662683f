package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// Watcher notices containers that die or disappear, at once, and those that
// did so while nobody watched, when it begins and whenever the engine is back.
type Watcher struct {
	store Containers
	rt    runtime.Runtime
	died  func(workload string)
	log   *slog.Logger
}

// NewWatcher returns a watcher; died is called after each change it makes.
func NewWatcher(store Containers, rt runtime.Runtime, died func(workload string), log *slog.Logger) *Watcher {
	return &Watcher{store: store, rt: rt, died: died, log: log}
}

// longestSilence bounds the wait between two tries to reach a lost engine.
const longestSilence = 10 * time.Second

// Run watches until ctx ends. An engine that is lost is tried again.
func (w *Watcher) Run(ctx context.Context) error {
	wait := firstPause / 4
	for {
		err := w.rt.Watch(ctx,
			func() {
				wait = firstPause / 4
				if err := w.Reconcile(ctx); err != nil && ctx.Err() == nil {
					w.log.Error("compare the engine's containers with the database", "error", err)
				}
			},
			func(d runtime.Death) { w.report(ctx, d) })
		if ctx.Err() != nil {
			return nil
		}
		w.log.Warn("the container engine is lost and is tried again", "wait", wait, "error", err)
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		wait = min(2*wait, longestSilence)
	}
}

// Reconcile compares what the engine has with what the database says: a
// container of ours that the database has given up, or never heard of, is
// removed; one that should run and does not is treated as dead. The label that
// made the engine list it and the database must agree before anything is
// removed: a live row protects its container.
func (w *Watcher) Reconcile(ctx context.Context) error {
	// What is there is asked first: a container that is made in between has
	// its row before it exists, so none of those is taken for an orphan.
	there, err := w.rt.List(ctx)
	if err != nil {
		return fmt.Errorf("list the engine's containers: %w", err)
	}
	byID := make(map[string]runtime.Status, len(there))
	for _, s := range there {
		byID[s.ID] = s
		if err := w.reclaim(ctx, s); err != nil {
			return err
		}
	}
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
				return fmt.Errorf("ask for container %s: %w", c.ID, err)
			}
		}
		w.report(ctx, runtime.Death{ID: c.ID, ExitCode: s.ExitCode, OOMKilled: s.OOMKilled})
	}
	return nil
}

// reclaim removes a container that no live row knows.
func (w *Watcher) reclaim(ctx context.Context, s runtime.Status) error {
	c, err := w.store.Container(ctx, s.ID)
	switch {
	case err != nil && !errors.Is(err, ErrNoContainer):
		return fmt.Errorf("look container %s up: %w", s.ID, err)
	case err == nil && c.State != Gone:
		return nil
	}
	w.log.Warn("removing a container that was made here and is no longer known", "container", s.ID, "workload", s.Workload)
	if err := w.rt.Destroy(ctx, s.ID); err != nil {
		w.log.Error("remove a container that is no longer known", "container", s.ID, "error", err)
	}
	return nil
}

// report acts on a death: an idle container is replaced, a claimed one is
// reported and stays its tenant's until released. One that is being made or
// destroyed is its flow's to notice.
func (w *Watcher) report(ctx context.Context, d runtime.Death) {
	c, err := w.store.Container(ctx, d.ID)
	if err != nil || (c.State != Idle && c.State != Claimed) || c.Health == Dead {
		return
	}
	reason := fmt.Sprintf("its main process ended with exit code %d", d.ExitCode)
	if d.OOMKilled {
		reason = "it ran out of memory"
	}
	event := activity.Event{
		Type: activity.ContainerDied, Message: "container died: " + reason,
		Data: activity.Data(map[string]any{"exit_code": d.ExitCode, "oom_killed": d.OOMKilled}),
	}
	m := Condemn(c.ID, []State{Idle}, reason)
	m.Events = append([]activity.Event{event}, m.Events...)
	_, err = w.store.MoveContainer(ctx, m)
	if isMoved(err) {
		_, err = w.store.MoveContainer(ctx, Move{
			ID: c.ID, From: []State{Claimed}, To: Claimed,
			Set:    func(c *Container) { c.Health, c.Reason = Dead, reason },
			Events: []activity.Event{event},
		})
	}
	if err != nil && !isMoved(err) {
		w.log.Error("record that a container died", "container", c.ID, "error", err)
		return
	}
	w.died(c.Workload)
}
