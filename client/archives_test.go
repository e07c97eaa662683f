package client_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/snapshot"
)

// archiveServer serves a backend with a snapshot.
func archiveServer(t *testing.T) (*apitest.Backend, *client.Client) {
	t.Helper()
	b := apitest.New()
	c := serveThrough(t, b, nil)
	_, err := c.Apply(t.Context(), "web", []byte("id: web\nimage: nginx\n"))
	require.NoError(t, err)
	b.Snapshots = []snapshot.Snapshot{{ID: "snap-1"}}
	return b, c
}

// A verification returns its result, and its error as any other call.
func TestVerifySnapshots(t *testing.T) {
	b, c := archiveServer(t)
	b.Verified = snapshot.Verification{Snapshots: 1, Damaged: 1, Damages: []snapshot.Damage{{Object: "packs/x", Paths: []string{"/data/a"}}}}
	for _, id := range []string{"", "snap-1", client.AllSnapshots} {
		v, err := c.VerifySnapshots(t.Context(), "web", "alice", id, nil)
		require.NoError(t, err)
		require.Equal(t, client.Verification{Snapshots: 1, Damaged: 1, Damages: []client.Damage{{Object: "packs/x", Paths: []string{"/data/a"}}}}, v)
	}
	var failed *client.Error
	_, err := c.VerifySnapshots(t.Context(), "web", "alice", "none", nil)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, client.CodeSnapshotNotFound, failed.Code)
}

// What is read of an export that fails is no whole tar.
func TestExportAndImportSnapshot(t *testing.T) {
	b, c := archiveServer(t)
	s, err := c.ImportSnapshot(t.Context(), "web", "alice", strings.NewReader("tar"))
	require.NoError(t, err)
	require.Equal(t, []any{"imported", "import", true}, []any{s.ID, s.Reason, s.Current})
	for id, want := range map[string]string{"": "imported", client.CurrentSnapshot: "imported", "snap-1": "snap-1"} {
		tar, got, err := c.ExportSnapshot(t.Context(), "web", "alice", id)
		require.NoError(t, err)
		text, err := io.ReadAll(tar)
		require.NoError(t, err)
		require.NoError(t, tar.Close())
		require.Equal(t, []string{want, "tar"}, []string{got, string(text)})
	}
	b.Fail("exporting", errors.New("the bucket is gone"))
	b.Archive = []byte(strings.Repeat("x", 1<<20))
	tar, _, err := c.ExportSnapshot(t.Context(), "web", "alice", "")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, tar)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, tar.Close())
}
