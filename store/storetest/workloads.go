package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/workload"
)

func workloads(t *testing.T, s Store) {
	ctx := t.Context()
	_, err := s.Workload(ctx, web)
	require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
	require.ErrorIs(t, s.RemoveWorkload(ctx, web), pool.ErrWorkloadNotFound)

	r := pool.Record{ID: web, Revision: rev, Source: []byte("id: web\n"), Dir: "/seeds", MinIdle: 1, MaxSize: 5}
	require.NoError(t, s.PutWorkload(ctx, r, activity.Event{Type: activity.WorkloadApplied, Message: "applied"}))
	first, err := s.Workload(ctx, web)
	require.NoError(t, err)
	require.False(t, first.CreatedAt.IsZero())
	want := r
	want.CreatedAt, want.UpdatedAt = first.CreatedAt, first.UpdatedAt
	require.Equal(t, want, first)

	require.ErrorIs(t, s.RemoveWorkload(ctx, web), pool.ErrWorkloadNotFound, "it is not being deleted")
	r.Draining, r.Deleting, r.MaxSize = true, true, 9
	require.ErrorIs(t, s.PutWorkload(ctx, r), pool.ErrConflict, "it was written since the caller read it")
	r.UpdatedAt = first.UpdatedAt
	require.NoError(t, s.PutWorkload(ctx, r))
	require.ErrorIs(t, s.PutWorkload(ctx, r), pool.ErrConflict)
	second, err := s.Workload(ctx, web)
	require.NoError(t, err)
	require.Equal(t, first.CreatedAt, second.CreatedAt)
	require.True(t, second.Draining && second.Deleting)
	require.Equal(t, 9, second.MaxSize)
	require.NoError(t, s.PutWorkload(ctx, pool.Record{ID: "api", Revision: rev}))
	all, err := s.Workloads(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"api", web}, []string{all[0].ID, all[1].ID})

	id := addContainer(t, s, rev)
	from := lastSeq(t, s)
	require.ErrorIs(t, s.RemoveWorkload(ctx, web, activity.Event{Type: activity.WorkloadDeleted}), pool.ErrInUse)
	require.Equal(t, from, lastSeq(t, s))
	mustUpdateContainer(t, s, destroyingTransition(id))
	mustUpdateContainer(t, s, destroyedTransition(id))
	require.NoError(t, s.RemoveWorkload(ctx, web, activity.Event{Type: activity.WorkloadDeleted, Message: "deleted"}))
	_, err = s.Workload(ctx, web)
	require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
	_, err = s.Revision(ctx, web, rev)
	require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
	require.Equal(t, []activity.Type{activity.WorkloadApplied, activity.WorkloadDeleted},
		eventTypes(events(t, s, activity.Filter{Types: []activity.Type{"workload"}, Workload: web}, 0)))
}

// A container is added to no workload that was removed, or was never put: nothing
// would ever destroy it.
func containerOfNoWorkload(t *testing.T, s Store) {
	ctx := t.Context()
	refused := func() {
		t.Helper()
		c := pool.Container{ID: newID(), Workload: web, Revision: rev}
		from := lastSeq(t, s)
		require.ErrorIs(t, s.AddContainer(ctx, c, unlimited), pool.ErrWorkloadNotFound)
		_, err := s.Container(ctx, c.ID)
		require.ErrorIs(t, err, pool.ErrContainerNotFound)
		require.Equal(t, from, lastSeq(t, s), "no event either")
	}
	refused()
	PutWorkloads(t, s, "other")
	refused()
	PutWorkloads(t, s, web)
	id := addContainer(t, s, rev)
	mustUpdateContainer(t, s, destroyingTransition(id))
	mustUpdateContainer(t, s, destroyedTransition(id))
	removeWorkload(t, s, web)
	refused()
	PutWorkloads(t, s, web)
	addContainer(t, s, rev)
}

// A container of a revision whose file is gone is refused: its hooks would be lost.
// One of a revision that was replaced is not, nor one after a rollback.
func containerOfNoRevision(t *testing.T, s Store) {
	ctx := t.Context()
	add := func(revision string) error {
		c := pool.Container{ID: newID(), Workload: web, Revision: revision}
		err := s.AddContainer(ctx, c, unlimited)
		if err == nil {
			mustUpdateContainer(t, s, destroyingTransition(c.ID))
			mustUpdateContainer(t, s, destroyedTransition(c.ID))
			return nil
		}
		_, notAdded := s.Container(ctx, c.ID)
		require.ErrorIs(t, notAdded, pool.ErrContainerNotFound)
		return err
	}
	put := func(revision string) {
		putWorkload(t, s, pool.Record{ID: web, Revision: revision, Source: []byte(revision), MaxSize: unlimited})
	}
	prune := func() {
		_, err := s.Prune(ctx, store.Retention{Before: time.Now().Add(time.Hour)})
		require.NoError(t, err)
	}
	put(oldRev)
	require.NoError(t, s.PutWorkload(ctx, pool.Record{ID: "other", Revision: rev}))
	require.ErrorIs(t, add(rev), pool.ErrWorkloadNotFound, "only another workload has it")
	put(rev)
	require.NoError(t, add(oldRev), "its creation began before it was replaced")
	require.NoError(t, add(rev))
	put(oldRev)
	require.NoError(t, add(oldRev), "a rollback")
	prune()
	require.NoError(t, add(oldRev), "the current one is never removed")
	require.ErrorIs(t, add(rev), pool.ErrWorkloadNotFound, "retention has removed it")
	put(rev)
	require.NoError(t, add(rev), "a rollback to one that retention has removed")

	removeWorkload(t, s, web)
	put(oldRev)
	require.ErrorIs(t, add(rev), pool.ErrWorkloadNotFound, "another file was applied after the removal")
	require.NoError(t, add(oldRev))
}

// putWorkload replaces the record unconditionally.
func putWorkload(t *testing.T, s Store, r pool.Record) {
	t.Helper()
	before, err := s.Workload(t.Context(), r.ID)
	if err != nil {
		require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
	}
	r.UpdatedAt = before.UpdatedAt
	require.NoError(t, s.PutWorkload(t.Context(), r))
}

// Containers of an older revision are destroyed with that revision's file, not
// the new one.
func revisions(t *testing.T, s Store) {
	ctx := t.Context()
	require.NoError(t, s.PutWorkload(ctx, pool.Record{ID: web, Revision: oldRev, Source: []byte("old"), Dir: "/old"}))
	addContainer(t, s, oldRev)
	putWorkload(t, s, pool.Record{ID: web, Revision: rev, Source: []byte("new"), Dir: "/new"})
	for revision, want := range map[string]string{oldRev: "old", rev: "new"} {
		r, err := s.Revision(ctx, web, revision)
		require.NoError(t, err)
		require.Equal(t, []string{web, revision, want, "/" + want}, []string{r.ID, r.Revision, string(r.Source), r.Dir})
	}
	_, err := s.Revision(ctx, web, "r9")
	require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
}

// The file of a revision that is replaced is kept, also if retention has removed it
// before: a point may have begun with it.
func replacedFiles(t *testing.T, s Store) {
	ctx := t.Context()
	old := []byte("old")
	require.NoError(t, s.PutWorkload(ctx, pool.Record{ID: web, Revision: rev, Source: old}))
	addContainer(t, s, rev)
	putWorkload(t, s, pool.Record{ID: web, Revision: "r2", Source: []byte("new")})
	_, err := s.Prune(ctx, store.Retention{Before: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	_, err = s.File(ctx, web, workload.FileID(old))
	require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
	putWorkload(t, s, pool.Record{ID: web, Revision: rev, Source: []byte("newest")})
	got, err := s.File(ctx, web, workload.FileID(old))
	require.NoError(t, err)
	require.Equal(t, old, got)
}

// A file stays while a point may be resumed with it. Then retention removes it,
// unless it is the current one.
func files(t *testing.T, s Store) {
	ctx := t.Context()
	old, current := []byte("old"), []byte("new")
	require.NoError(t, s.PutWorkload(ctx, pool.Record{ID: web, Revision: rev, Source: old}))
	id := addContainer(t, s, rev)
	putWorkload(t, s, pool.Record{ID: web, Revision: rev, Source: current})
	read := func(source []byte) error {
		got, err := s.File(ctx, web, workload.FileID(source))
		if err == nil {
			require.Equal(t, source, got)
		}
		return err
	}
	prune := func() {
		_, err := s.Prune(ctx, store.Retention{Before: time.Now().Add(time.Hour)})
		require.NoError(t, err)
	}
	require.NoError(t, read(old))
	require.NoError(t, read(current))
	require.ErrorIs(t, read([]byte("other")), pool.ErrWorkloadNotFound)

	mustUpdateContainer(t, s, destroyingTransition(id))
	prune()
	require.NoError(t, read(old), "pre_destroy may be resumed with it")
	mustUpdateContainer(t, s, destroyedTransition(id))
	prune()
	require.ErrorIs(t, read(old), pool.ErrWorkloadNotFound)
	require.NoError(t, read(current))
}
