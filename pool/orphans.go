package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/runtime"
)

// orphanGrace is how long a container without a record is kept. An operator who
// has started a server on the wrong database, or on an old copy of it, sees the
// log line and can stop the server before anything is lost.
const orphanGrace = 25 * time.Second

// Why an orphan is removed. It is a container of Hostler in the engine that has
// no live record.
const (
	hasNoRecord  = "it has no record in the database"
	wasDestroyed = "it exists in the engine after it was destroyed"
)

// checkOrphan has a container removed that has no live record: immediately if it
// is recorded as destroyed, after orphanGrace if there is no record. A container
// that a newer server created is removed by that server.
func (w *Watcher) checkOrphan(ctx context.Context, s runtime.Status) (isOrphan bool, err error) {
	if w.rt.Protocols().IsNewer(s.Protocol) {
		return false, nil
	}
	reason, err := w.orphanReason(ctx, s.ID)
	switch {
	case err != nil:
		return false, err
	case reason == "":
		delete(w.unknown, s.ID)
	case reason == wasDestroyed || w.hasGracePassed(s):
		w.removals.Add(containerKey{s.Workload, s.ID})
	}
	return reason != "", nil
}

// orphanReason returns why a container is an orphan; empty if it is not.
func (w *Watcher) orphanReason(ctx context.Context, id string) (string, error) {
	c, err := w.store.Container(ctx, id)
	switch {
	case errors.Is(err, ErrContainerNotFound):
		return hasNoRecord, nil
	case err != nil:
		return "", fmt.Errorf("read container %s: %w", id, err)
	case c.State != Destroyed:
		return "", nil
	}
	return wasDestroyed, nil
}

// hasGracePassed reports whether a container has had no record for orphanGrace.
func (w *Watcher) hasGracePassed(s runtime.Status) bool {
	firstSeen, ok := w.unknown[s.ID]
	if !ok {
		w.unknown[s.ID] = time.Now()
		w.log.Warn("container has no record in the database; removing after grace period",
			"container", s.ID, "workload", s.Workload, "grace", orphanGrace)
	}
	return ok && time.Since(firstSeen) >= orphanGrace
}

// removeOrphan removes a container that is still an orphan, and retries that until
// it succeeds. Nothing else waits for it.
func (w *Watcher) removeOrphan(ctx context.Context, t *workqueue.Task[containerKey]) error {
	reason, err := w.orphanReason(ctx, t.Key.id)
	if err == nil && reason != "" {
		err = w.tryRemoveOrphan(ctx, t.Key, reason)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("removing orphaned container failed; retrying", "container", t.Key.id, "reason", reason, "error", err)
	}
	return err
}

// tryRemoveOrphan removes an orphan after it has recorded the reason, once for all
// attempts.
func (w *Watcher) tryRemoveOrphan(ctx context.Context, k containerKey, reason string) error {
	appendEvent := func(t activity.Type, message string) error {
		return w.store.Append(ctx, activity.Event{
			Type: t, Workload: k.workload, Container: k.id, Message: message + ": " + reason,
			Data: activity.Data(activity.ReasonData{Reason: reason}),
		})
	}
	if _, recorded := w.removing.Load(k); !recorded {
		// It may have been removed since the list was taken.
		if _, err := w.status(ctx, k.id); errors.Is(err, runtime.ErrNotFound) {
			return nil
		}
		if err := appendEvent(activity.ContainerDestroying, "destroying container"); err != nil {
			return fmt.Errorf("record the removal: %w", err)
		}
		w.removing.Store(k, true)
		w.log.Warn("removing orphaned container", "container", k.id, "workload", k.workload, "reason", reason)
	}
	destroyCtx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := w.rt.Destroy(destroyCtx, k.id); err != nil {
		return err
	}
	if err := appendEvent(activity.ContainerDestroyed, "container destroyed"); err != nil {
		return fmt.Errorf("record that it was removed: %w", err)
	}
	w.removing.Delete(k)
	return nil
}
