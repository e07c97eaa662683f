package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/workload"
)

// Restore without a file invalidates the records of a database that was restored
// by other means: idle containers are discarded, and a claim is kept only where
// no other tenant can have had its container.
func TestRestoreInvalidatesRecords(t *testing.T) {
	data := t.TempDir()
	t.Chdir(data)
	for _, none := range []string{data, "."} {
		code, _, errOut := hostler(t, "", "restore", "--data", none)
		require.Equal(t, exitNotFound, code, errOut)
	}
	code, _, errOut := hostler(t, "", "restore", "copy.db", "--data", data, "--store", "postgres://db/hostler")
	require.Equal(t, exitUsage, code, errOut)

	path := filepath.Join(data, "hostler.db")
	db, err := store.Open(t.Context(), path)
	require.NoError(t, err)
	for _, reuse := range []workload.Reuse{workload.ReuseWipe, workload.ReuseNever} {
		prepareClaim(t, db, string(reuse))
	}
	code, _, errOut = hostler(t, "", "restore", "--data", data)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "another server uses the database")
	require.NoError(t, db.Close())

	for _, want := range []string{
		"2 containers discarded, 1 claims ended, 1 claims kept",
		"0 containers discarded, 0 claims ended, 1 claims kept",
	} {
		code, out, errOut := hostler(t, "", "restore", "--data", data)
		require.Equal(t, exitOK, code, errOut)
		require.Contains(t, out, want)
	}
	db, err = store.Open(t.Context(), path)
	require.NoError(t, err)
	defer db.Close()
	for id, want := range map[string]pool.State{
		"wipe-1": pool.Destroying, "wipe-2": pool.Destroying, "never-1": pool.Claimed, "never-2": pool.Destroying,
	} {
		c, err := db.Container(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, c.State, id)
	}
}

// Every command that opens a database refuses one of another version, with what to do,
// and leaves it unchanged. A copy of it can still be made.
func TestDatabaseOfAnotherVersion(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	path, older := filepath.Join(data, "hostler.db"), filepath.Join(dir, "older.db")
	db, err := store.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "schema", "1"))
	require.NoError(t, db.Close())
	code, _, errOut := hostler(t, "", "backup", older, "--data", data)
	require.Equal(t, exitOK, code, errOut)
	other := t.TempDir()
	for _, args := range [][]string{
		{"serve", "--runtime", "process", "--listen", "127.0.0.1:0", "--data", data},
		{"key", "bootstrap", "--data", data},
		{"restore", "--data", data},
		{"restore", older, "--data", other},
	} {
		code, _, errOut := hostler(t, "", args...)
		require.Equal(t, exitFailure, code, errOut)
		require.Contains(t, errOut, "the database is of another version of Hostler: it has schema 1, this program needs schema", args)
		require.Contains(t, errOut, "start the version that created it, or move the file and its side files away", args)
	}
	left, err := os.ReadDir(other)
	require.NoError(t, err)
	require.Len(t, left, 1, "the lock")
	again := filepath.Join(dir, "again.db")
	code, _, errOut = hostler(t, "", "backup", again, "--data", data)
	require.Equal(t, exitOK, code, errOut)
	want, err := os.ReadFile(older)
	require.NoError(t, err)
	got, err := os.ReadFile(again)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// prepareClaim adds a workload with a claimed container and one that is being
// created. The workload's id is its reuse policy.
func prepareClaim(t *testing.T, db *store.DB, id string) {
	t.Helper()
	w, err := workload.Parse([]byte("id: "+id+"\nimage: x\npool: { reuse: "+id+" }\n"), "w.yaml")
	require.NoError(t, err)
	require.NoError(t, db.PutWorkload(t.Context(), pool.Record{ID: id, Revision: w.Revision, Source: w.Source, MaxSize: 2}))
	for _, c := range []string{id + "-1", id + "-2"} {
		require.NoError(t, db.AddContainer(t.Context(), pool.Container{ID: c, Workload: id, Revision: w.Revision, State: pool.Creating}, 2))
		if c == id+"-2" {
			break
		}
		_, err := db.UpdateContainer(t.Context(), pool.Transition{ID: c, From: []pool.State{pool.Creating}, To: pool.Idle})
		require.NoError(t, err)
		k, err := db.Reserve(t.Context(), claim.Reservation{Claim: "claim-" + id, Workload: id, Tenant: "ada", Revision: w.Revision, Reuse: w.Pool.Reuse})
		require.NoError(t, err)
		_, err = db.UpdateClaim(t.Context(), claim.Transition{ID: k.ID, From: []claim.State{claim.Pending}, To: claim.Active})
		require.NoError(t, err)
	}
}
