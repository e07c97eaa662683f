package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/workload"
)

// seeded accepts a workload when the directory of its seed exists.
type seeded struct {
	applied map[string]pool.Record
	fails   int // how many calls fail for another reason
}

func (s *seeded) Workload(_ context.Context, id string) (pool.Record, error) {
	r, ok := s.applied[id]
	if !ok {
		return r, pool.ErrWorkloadNotFound
	}
	return r, nil
}

func (s *seeded) Apply(_ context.Context, source []byte, file, dir string) (pool.Applied, error) {
	w, err := workload.Parse(source, file)
	if err != nil {
		return pool.Applied{}, err
	}
	if s.fails--; s.fails >= 0 {
		return pool.Applied{}, errors.New("the database is locked")
	}
	if _, err := os.Stat(filepath.Join(dir, "seed-"+w.ID)); err != nil {
		return pool.Applied{}, w.ValidationErrors(file, workload.ValidationError{Field: "id", Message: "has no seed"})
	}
	s.applied[w.ID] = pool.Record{ID: w.ID, Source: source, Dir: dir}
	return pool.Applied{Record: s.applied[w.ID], Created: true}, nil
}

// What a server does not accept is an event once, on record, and tried again when
// anything in the directory changes: what was missing may be there.
func TestRejectedFileIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	db := dbtest.Open(t)
	apply := &seeded{applied: map[string]pool.Record{}}
	f := &followedDirectory{pools: apply, record: db.UpdateFollowedFiles, dir: dir, rejected: map[string]workload.Change{}, log: slog.New(slog.DiscardHandler)}
	file := filepath.Join(dir, "web.yaml")
	w, err := workload.Parse([]byte("id: web\nimage: x\n"), file)
	require.NoError(t, err)
	change, scan := workload.Change{File: file, ID: "web", Workload: w}, workload.Scan{Files: []string{file}}

	f.applyChange(t.Context(), change)
	for range 3 { // as after other changes
		f.scanned(t.Context(), scan)
	}
	found, err := db.FollowedFiles(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, found.Count)
	require.Equal(t, "web.yaml:1:5: id: has no seed", found.Invalid[0].String())
	require.Equal(t, []activity.Type{activity.WorkloadRejected}, typesOf(t, db))

	require.NoError(t, os.Mkdir(filepath.Join(dir, "seed-web"), 0o700))
	f.scanned(t.Context(), scan)
	require.Contains(t, apply.applied, "web")
	found, err = db.FollowedFiles(t.Context())
	require.NoError(t, err)
	require.Equal(t, pool.FollowedFiles{Dir: dir}, found)
	require.Equal(t, []activity.Type{activity.WorkloadRejected, activity.WorkloadAccepted}, typesOf(t, db))
}

func typesOf(t *testing.T, db *store.DB) (all []activity.Type) {
	t.Helper()
	page, err := db.Events(t.Context(), activity.Filter{}, 0, 100)
	require.NoError(t, err)
	for _, e := range page.Items {
		all = append(all, e.Type)
	}
	return all
}

// A directory without workload files is a warning that names those below it.
func TestEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "hello"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hello", "workload.yaml"), nil, 0o600))
	var record pool.FollowedFiles
	f := &followedDirectory{dir: dir, log: slog.New(slog.DiscardHandler), record: func(_ context.Context, set func(*pool.FollowedFiles) []activity.Event) error {
		require.Empty(t, set(&record))
		return nil
	}}
	f.scanned(t.Context(), workload.Scan{})
	require.Contains(t, record.Warning, "it has no workload file")
	require.Contains(t, record.Warning, filepath.Join(dir, "hello"))
	f.scanned(t.Context(), workload.Scan{Files: []string{filepath.Join(dir, "a.yaml")}})
	require.Empty(t, record.Warning)
	f.warn(t.Context(), "it cannot be followed")
	require.Equal(t, pool.FollowedFiles{Dir: dir, Warning: "it cannot be followed"}, record)
}
