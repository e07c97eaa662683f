package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Restore makes an older snapshot the current one again, under a new id; the
// previous one stays in the list. It moves no files; the next download does. An
// active claim would later upload its state over it, so the caller ensures that
// there is none. Restoring the current snapshot again does nothing.
func (s *Sink) Restore(ctx context.Context, o Owner, id string) (Snapshot, error) {
	back, err := s.restore(ctx, o, id)
	if err != nil {
		return Snapshot{}, fmt.Errorf("restore snapshot %s of tenant %q of workload %s: %w", id, o.Tenant, o.Workload, err)
	}
	return back, nil
}

func (s *Sink) restore(ctx context.Context, o Owner, id string) (Snapshot, error) {
	at, err := ownerDir(s.sync.Sink, o)
	if err != nil {
		return Snapshot{}, err
	}
	h, err := s.loadManifest(ctx, at, o)
	if err != nil {
		return Snapshot{}, err
	}
	if now, ok := h.current(); ok && now.RestoredFrom == id {
		return now, nil
	}
	i := slices.IndexFunc(h.Snapshots, func(s Snapshot) bool { return s.ID == id })
	if i < 0 {
		return Snapshot{}, ErrNoSnapshot
	}
	if i == 0 {
		return h.Snapshots[0], nil
	}
	back := h.Snapshots[i]
	back.ID, back.Time, back.RestoredFrom, back.Reason = newID(), time.Now().UTC(), id, "restored"
	return back, s.commit(ctx, at, h, h.withSnapshot(back, s.sync.Keep))
}

// newID returns an identifier that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// The maximum duration of an upload, and the age at which an object that no
// snapshot needs can no longer belong to an upload in progress.
const (
	uploadTimeout = 12 * time.Hour
	pruneGrace    = 24 * time.Hour
)

// Prune removes what failed uploads have left, and snapshots beyond the number
// to keep. It returns how many objects it removed. Calling it after a failed
// upload, and occasionally, is enough.
func (s *Sink) Prune(ctx context.Context, o Owner) (int, error) {
	n, err := s.prune(ctx, o, time.Now().Add(-pruneGrace))
	if err != nil {
		return n, fmt.Errorf("prune the snapshots of tenant %q of workload %s: %w", o.Tenant, o.Workload, err)
	}
	return n, nil
}

func (s *Sink) prune(ctx context.Context, o Owner, before time.Time) (int, error) {
	at, err := ownerDir(s.sync.Sink, o)
	if err != nil {
		return 0, err
	}
	h, err := s.loadManifest(ctx, at, o)
	if err != nil {
		return 0, err
	}
	if next := h.truncated(s.sync.Keep); len(next.Snapshots) < len(h.Snapshots) {
		if err := s.commit(ctx, at, h, next); err != nil {
			return 0, err
		}
		h.Snapshots, h.Generation = next.Snapshots, h.Generation+1
	}
	needed := map[string]bool{} // to be written
	var garbage []string
	err = s.bucket.List(ctx, at, func(o Object) error {
		if o.Time.Before(before) && !needed[o.Key[len(at):]] && o.Key != manifestKey(at, h.Generation) {
			garbage = append(garbage, o.Key)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i, key := range garbage {
		if err := s.bucket.Delete(ctx, key); err != nil {
			return i, err
		}
	}
	return len(garbage), nil
}
