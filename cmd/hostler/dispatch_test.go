package main

import (
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
)

// A server that has cached a revision uses the seed directory of a later apply
// on another server.
func TestSeedDirFollowsApply(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), dbtest.Path(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	sinks := snapshot.NewSinks(snapshot.PathPolicy{}, nil)
	rt := closableRuntime{fake.New()}
	requests, err := serveConfig{}.requests()
	require.NoError(t, err)
	here, there := assemble(db, rt, sinks, requests, nil, 0, log), assemble(db, rt, sinks, requests, nil, 0, log)
	after := int64(0)
	for _, dir := range []string{t.TempDir(), t.TempDir()} {
		applied, err := there.pools.Apply(t.Context(), []byte("id: w\nimage: x\n"), "w.yaml", dir)
		require.NoError(t, err)
		page, err := db.Events(t.Context(), activity.Filter{}, after, 0)
		require.NoError(t, err)
		after = page.Items[len(page.Items)-1].Seq
		for _, e := range page.Items {
			if on := here.pools.EventHandlers().On[e.Type]; on != nil {
				on(e)
			}
		}
		_, r, err := here.pools.Catalog.Revision(t.Context(), "w", applied.Record.Revision)
		require.NoError(t, err)
		require.Equal(t, dir, r.Dir)
	}
}

// closableRuntime is a runtime in memory, with a Close that does nothing.
type closableRuntime struct{ *fake.Runtime }

func (closableRuntime) Close() error { return nil }
