package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// orphanGrace is how long a container that the database does not know is left
// alone: whoever has started a server on the wrong database, or on an old copy
// of it, finds it in the log, and can stop the server before anything is lost.
const orphanGrace = 25 * time.Second

// orphan is a container that the engine lists as ours and no live record needs.
type orphan struct {
	firstSeen time.Time // when it was found, and by every comparison from then on
	recorded  bool      // the log says why it is removed
}

// checkOrphan removes a container that no live record needs: at once if the
// database has given it up, and after a grace if it never heard of it. One that
// a newer server made is that server's to remove.
func (w *Watcher) checkOrphan(ctx context.Context, s runtime.Status) error {
	if w.rt.Protocols().IsNewer(s.Protocol) {
		return nil
	}
	c, err := w.store.Container(ctx, s.ID)
	switch {
	case errors.Is(err, ErrContainerNotFound):
		return w.checkUnknown(ctx, s)
	case err != nil:
		return fmt.Errorf("look container %s up: %w", s.ID, err)
	case c.State != Destroyed:
		delete(w.orphans, s.ID)
		return nil
	}
	// It may have been removed since the list was taken.
	if _, err := w.rt.Status(ctx, s.ID); errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return w.removeOrphan(ctx, s, "the engine has it after it was destroyed")
}

func (w *Watcher) checkUnknown(ctx context.Context, s runtime.Status) error {
	o := w.orphans[s.ID]
	if o == nil {
		w.orphans[s.ID] = &orphan{firstSeen: time.Now()}
		w.log.Warn("the engine has a container that was made here and that the database does not know; it will be removed",
			"container", s.ID, "workload", s.Workload, "grace", orphanGrace)
		return nil
	}
	if time.Since(o.firstSeen) < orphanGrace {
		return nil
	}
	return w.removeOrphan(ctx, s, "the database does not know it")
}

// removeOrphan removes a container, after the log says why.
func (w *Watcher) removeOrphan(ctx context.Context, s runtime.Status, reason string) error {
	o := w.orphans[s.ID]
	if o == nil {
		o = &orphan{firstSeen: time.Now()}
		w.orphans[s.ID] = o
	}
	appendEvent := func(t activity.Type, message string) error {
		return w.store.Append(ctx, activity.Event{
			Type: t, Workload: s.Workload, Container: s.ID, Message: message + ": " + reason,
			Data: activity.Data(map[string]any{"reason": reason}),
		})
	}
	if !o.recorded {
		if err := appendEvent(activity.ContainerDestroying, "container is to be destroyed"); err != nil {
			return fmt.Errorf("record why container %s is removed: %w", s.ID, err)
		}
		o.recorded = true
		w.log.Warn("removing a container that nobody needs", "container", s.ID, "workload", s.Workload, "reason", reason)
	}
	if err := w.rt.Destroy(ctx, s.ID); err != nil {
		// The next comparison tries again. Nothing else waits for it.
		w.log.Warn("a container that nobody needs could not be removed", "container", s.ID, "reason", reason, "error", err)
		return nil
	}
	delete(w.orphans, s.ID)
	if err := appendEvent(activity.ContainerDestroyed, "container is destroyed"); err != nil {
		return fmt.Errorf("record that container %s is removed: %w", s.ID, err)
	}
	return nil
}
