package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// orphanGrace is how long a container without a record is kept. An operator who
// has started a server on the wrong database, or on an old copy of it, sees the
// log line and can stop the server before anything is lost.
const orphanGrace = 25 * time.Second

// orphan is a container of Hostler in the engine that has no live record.
type orphan struct {
	firstSeen time.Time // every comparison since then has found it
	recorded  bool      // the event with the reason is written
}

// checkOrphan removes a container that has no live record: immediately if it is
// recorded as destroyed, after orphanGrace if there is no record. A container
// that a newer server created is removed by that server.
func (w *Watcher) checkOrphan(ctx context.Context, s runtime.Status) error {
	if w.rt.Protocols().IsNewer(s.Protocol) {
		return nil
	}
	c, err := w.store.Container(ctx, s.ID)
	switch {
	case errors.Is(err, ErrContainerNotFound):
		return w.checkUnknown(ctx, s)
	case err != nil:
		return fmt.Errorf("read container %s: %w", s.ID, err)
	case c.State != Destroyed:
		delete(w.orphans, s.ID)
		return nil
	}
	// It may have been removed since the list was taken.
	if _, err := w.status(ctx, s.ID); errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return w.removeOrphan(ctx, s, "it exists in the engine after it was destroyed")
}

func (w *Watcher) checkUnknown(ctx context.Context, s runtime.Status) error {
	o := w.orphans[s.ID]
	if o == nil {
		w.orphans[s.ID] = &orphan{firstSeen: time.Now()}
		w.log.Warn("container has no record in the database; removing after grace period",
			"container", s.ID, "workload", s.Workload, "grace", orphanGrace)
		return nil
	}
	if time.Since(o.firstSeen) < orphanGrace {
		return nil
	}
	return w.removeOrphan(ctx, s, "it has no record in the database")
}

// removeOrphan removes a container after it has recorded the reason.
func (w *Watcher) removeOrphan(ctx context.Context, s runtime.Status, reason string) error {
	o := w.orphans[s.ID]
	if o == nil {
		o = &orphan{firstSeen: time.Now()}
		w.orphans[s.ID] = o
	}
	appendEvent := func(t activity.Type, message string) error {
		return w.store.Append(ctx, activity.Event{
			Type: t, Workload: s.Workload, Container: s.ID, Message: message + ": " + reason,
			Data: activity.Data(activity.ReasonData{Reason: reason}),
		})
	}
	if !o.recorded {
		if err := appendEvent(activity.ContainerDestroying, "destroying container"); err != nil {
			return fmt.Errorf("record the removal of container %s: %w", s.ID, err)
		}
		o.recorded = true
		w.log.Warn("removing orphaned container", "container", s.ID, "workload", s.Workload, "reason", reason)
	}
	if err := w.rt.Destroy(ctx, s.ID); err != nil {
		// The next comparison retries. Nothing else waits for it.
		w.log.Warn("removing orphaned container failed; retrying", "container", s.ID, "reason", reason, "error", err)
		return nil
	}
	delete(w.orphans, s.ID)
	if err := appendEvent(activity.ContainerDestroyed, "container destroyed"); err != nil {
		return fmt.Errorf("record that container %s was removed: %w", s.ID, err)
	}
	return nil
}
