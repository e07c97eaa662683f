package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/snapshot"
)

// An import has its event, and so has an export, before its first byte: if the event
// cannot be recorded, nothing is sent.
func TestArchivesAreRecorded(t *testing.T) {
	h := flowtest.New(t)
	h.Apply("id: w\nimage: box\ncommand: [box, idle]\nvolumes: { state: { target: /data } }\npool: { min_idle: 0, max_size: 1 }\nsync: { sink: { type: file } }\n")
	state := sizedState{h.Claims, h.DB, slog.New(slog.DiscardHandler)}
	ctx := activity.WithActor(t.Context(), activity.Actor{Name: "key:ci"})
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "data/d/", Typeflag: tar.TypeDir, Mode: 0o755}))
	require.NoError(t, w.Close())
	imported, err := state.ImportSnapshot(ctx, "w", "ada", bytes.NewReader(archive.Bytes()))
	require.NoError(t, err)
	event := h.Events(activity.SnapshotImported)
	require.Len(t, event, 1)
	require.Equal(t, []string{"w", "ada", "key:ci"}, []string{event[0].Workload, event[0].Tenant, event[0].Actor})
	require.Contains(t, string(event[0].Data), imported.ID)

	refused := errors.New("refused")
	_, err = state.ExportSnapshot(ctx, "w", "ada", "", func(snapshot.Snapshot) (io.Writer, error) {
		require.Len(t, h.Events(activity.SnapshotExported), 1)
		return nil, refused
	})
	require.ErrorIs(t, err, refused)
	event = h.Events(activity.SnapshotExported)
	require.Equal(t, []string{"w", "ada", "key:ci"}, []string{event[0].Workload, event[0].Tenant, event[0].Actor})
	_, err = state.ImportSnapshot(ctx, "w", "ada", bytes.NewReader(nil))
	require.Error(t, err)
	require.Len(t, h.Events(activity.SnapshotImported), 1)

	none := int64(0)
	h.DB.SetQuotas(quota.Defaults{quota.Tenant: {State: &none}})
	_, err = state.ImportSnapshot(ctx, "w", "eve", bytes.NewReader(archive.Bytes()))
	_, exceeded := errors.AsType[*quota.ExceededError](err)
	require.True(t, exceeded, "%v", err)

	require.NoError(t, h.DB.Close())
	_, err = state.ExportSnapshot(ctx, "w", "ada", "", func(snapshot.Snapshot) (io.Writer, error) {
		t.Error("it was opened without an event")
		return io.Discard, nil
	})
	require.Error(t, err)
}
