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
	back.Parts = slices.Clone(back.Parts)
	for i := range back.Parts {
		back.Parts[i].New = 0 // all of it is stored already
	}
	back.ID, back.Time, back.RestoredFrom, back.Reason = newID(), time.Now().UTC(), id, "restored"
	return back, s.commit(ctx, at, h, h.withSnapshot(back, s.sync.Keep))
}

// newID returns an identifier that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
