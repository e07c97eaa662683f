package snapshot_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// An older claim's state never replaces a newer claim's, even if the newer one
// had nothing to store.
func TestOlderClaimLoses(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"release", "interval"} {
		h := newHarness(t, "")
		h.fence = 5
		h.upload(h.container(reg("f", "5")))
		same, _ := h.download()
		h.fence = 7
		later := h.origin(same)
		later.Reason = reason
		up, err := h.sink.Upload(t.Context(), h.rt, later)
		require.NoError(t, err)
		require.True(t, up.Unchanged)
		h.fence = 6
		_, err = h.sink.Upload(t.Context(), h.rt, h.origin(h.container(reg("f", "6"))))
		require.ErrorIs(t, err, snapshot.ErrStale, reason)
		require.Equal(t, "5", h.kept()["f"])
	}
}

// Each of several concurrent uploads either is stored or returns an error; the
// list has those that succeeded, and the highest manifest is the only one.
func TestConcurrentUploads(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 100}")
	h.upload(h.container(reg("f", "0")))
	const n = 12
	var g errgroup.Group
	var won atomic.Int32
	for i := range n {
		c := h.container(reg("f", fmt.Sprint(i+1)))
		g.Go(func() error {
			_, err := h.sink.Upload(t.Context(), h.rt, h.origin(c))
			if errors.Is(err, snapshot.ErrConflict) {
				return nil
			}
			won.Add(1)
			return err
		})
	}
	require.NoError(t, g.Wait())
	list, err := h.sink.List(t.Context(), h.owner)
	require.NoError(t, err)
	require.Len(t, list, int(won.Load())+1)
	heads := 0
	for key := range h.bucket.Objects() {
		if strings.Contains(key, "/heads/") {
			heads++
		}
	}
	require.Equal(t, 1, heads)
}

// An upload that is so late that its base manifest was removed does not win.
func TestLateUploaderLoses(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.upload(h.container(reg("f", "0")))
	once := false
	h.bucket.Before(func(c snapshottest.Call) error {
		if c.Op != "put" || once {
			return nil
		}
		once = true
		for i := range 3 {
			h.upload(h.container(reg("f", fmt.Sprint("between ", i))))
		}
		return nil
	})
	_, err := h.sink.Upload(t.Context(), h.rt, h.origin(h.container(reg("f", "late"))))
	require.ErrorIs(t, err, snapshot.ErrConflict)
	require.Equal(t, "between 2", h.kept()["f"])
}

// The last N are kept, and none of their objects is missing. Each can be made
// current again.
func TestKeepAndRestore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 3}")
	for i := range 6 {
		h.upload(h.container(reg("f", fmt.Sprint(i))))
	}
	list, err := h.sink.List(t.Context(), h.owner)
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Len(t, h.objects("heads/"), 1)
	require.Len(t, h.marks(), 3, "the packs of the others, for the grace")

	back, err := h.sink.Restore(t.Context(), h.owner, list[2].ID)
	require.NoError(t, err)
	require.Equal(t, list[2].ID, back.RestoredFrom)
	require.NotEqual(t, list[2].ID, back.ID)
	require.Equal(t, "3", h.kept()["f"])
	require.Len(t, h.marks(), 3)

	now, err := h.sink.List(t.Context(), h.owner)
	require.NoError(t, err)
	require.Equal(t, []string{back.ID, list[0].ID, list[1].ID}, []string{now[0].ID, now[1].ID, now[2].ID})
	for _, id := range []string{back.ID, list[2].ID} { // the second was truncated by now
		same, err := h.sink.Restore(t.Context(), h.owner, id)
		require.NoError(t, err)
		require.Equal(t, back.ID, same.ID)
	}
	_, err = h.sink.Restore(t.Context(), h.owner, "no such")
	require.ErrorIs(t, err, snapshot.ErrNoSnapshot)

	h.apply("{sink: {type: file}, keep: 1}")
	_, err = h.sink.Prune(t.Context(), h.owner)
	require.NoError(t, err)
	require.Equal(t, "3", h.kept()["f"])
	require.Len(t, h.marks(), 5)
}

// Of two concurrent truncations of the list to different lengths one wins, and
// nothing that is still listed is removed.
func TestConcurrentPrunes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 6}")
	for i := range 6 {
		h.upload(h.container(reg("f", fmt.Sprint(i))))
	}
	more, fewer := snapshot.New(h.bucket, synced(t, "{sink: {type: file}, keep: 5}")), snapshot.New(h.bucket, synced(t, "{sink: {type: file}, keep: 3}"))
	first := true
	h.bucket.Before(func(c snapshottest.Call) error {
		if c.Op != "create" || !first {
			return nil
		}
		first = false
		_, err := more.Prune(t.Context(), h.owner)
		return err
	})
	_, err := fewer.Prune(t.Context(), h.owner)
	require.ErrorIs(t, err, snapshot.ErrConflict)
	list, err := h.sink.List(t.Context(), h.owner)
	require.NoError(t, err)
	require.Len(t, list, 5)
	objects := h.bucket.Objects()
	for _, s := range list {
		require.Contains(t, objects, "tenants/alice/.hostler/w/packs/"+s.Parts[0].Index.Pack)
	}
}

// A manifest that exists because the answer to its creation was lost, and the
// creation repeated, is the uploader's own.
func TestRepeatedManifestCreate(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.bucket.After(func(c snapshottest.Call) error {
		if c.Op == "create" {
			return snapshot.ErrExists
		}
		return nil
	})
	h.upload(h.container(reg("f", "x")))
	require.Equal(t, "x", h.kept()["f"])
}

// Prune removes old objects of failed uploads, and nothing that is needed,
// recent or another owner's.
func TestPrune(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "")
		h.upload(h.container(reg("f", "x")))
		h.bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "create" {
				return snapshottest.ErrInjected
			}
			return nil
		})
		_, err := h.sink.Upload(t.Context(), h.rt, h.origin(h.container(reg("f", "y"))))
		require.Error(t, err)
		h.bucket.ClearFailures()
		h.bucket.Set("tenants/alice/config.json", nil, time.Now())
		h.bucket.Set("tenants/alice/.hostler/w2/data/x", nil, time.Now())
		require.Len(t, h.bucket.Objects(), 5)
		n, err := h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Zero(t, n)
		<-time.After(25 * time.Hour) // of the bubble
		n, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Len(t, h.bucket.Objects(), 4)
		require.Equal(t, "x", h.kept()["f"])
	})
}

// Tenants and workloads never share a snapshot, whatever they are called.
func TestOwnersAreIsolated(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"tenants/${tenantId}/", "${tenantId}", "a-${tenantId}-b"} {
		h := newHarness(t, "{sink: {type: file, prefix: '"+prefix+"'}}")
		names := []string{
			"a", "A", "ab", "a.", ".a", "..", ".", "a..b", "a/b", "a%2fb", "a_b", "_61", "a_5fb", "á", "a\u0301", "a\x00",
			"_h" + strings.Repeat("0", 64), strings.Repeat("A", 100), strings.Repeat("a", 300), ".hostler", "con", " a", "a ",
		}
		for _, name := range names {
			h.owner.Tenant = name
			h.upload(h.container(reg("f", name)))
		}
		h.owner.Workload = "v"
		h.upload(h.container(reg("f", "v")))
		h.owner.Workload = "w"
		dirs := map[string]bool{}
		for key := range h.bucket.Objects() {
			require.Equal(t, strings.ToLower(key), key)
			require.NotContains(t, key, "..")
			tenant, _, _ := strings.Cut(key, "/.hostler/")
			dirs[tenant] = true
		}
		require.Len(t, dirs, len(names))
		for _, name := range names {
			h.owner.Tenant = name
			require.Equal(t, name, h.kept()["f"])
		}
	}
	h := newHarness(t, "")
	for _, o := range []snapshot.Owner{{Workload: "w"}, {Tenant: "a"}, {Workload: "../w", Tenant: "a"}} {
		_, err := h.sink.List(t.Context(), o)
		require.ErrorIs(t, err, snapshot.ErrInvalidOwner)
	}
}
