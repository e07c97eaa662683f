package snapshot_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
)

const ownDirectory = "tenants/alice/.hostler/w/"

// store stores files as the current snapshot.
func (h *harness) store(files map[string]string) snapshot.Snapshot {
	h.Helper()
	s, err := h.sink.StoreFiles(h.Context(), h.owner, files)
	require.NoError(h, err)
	return s
}

// readable checks that each kept snapshot is complete, and returns them.
func (h *harness) readable() []map[string]string {
	h.Helper()
	list, err := h.sink.List(h.Context(), h.owner)
	require.NoError(h, err)
	all := make([]map[string]string, len(list))
	for i, s := range list {
		all[i], err = h.sink.ReadFiles(h.Context(), h.owner, s)
		require.NoError(h, err)
	}
	return all
}

// objects returns the names of objects in a directory of the owner.
func (h *harness) objects(dir string) (names []string) {
	for key := range h.bucket.Objects() {
		if name, ok := strings.CutPrefix(key, ownDirectory+dir); ok {
			names = append(names, name)
		}
	}
	return names
}

func (h *harness) marks() []snapshot.Mark {
	h.Helper()
	_, head, err := h.sink.Head(h.Context(), h.owner)
	require.NoError(h, err)
	return head.Garbage
}

func (h *harness) packOf(s snapshot.Snapshot) string { return s.Parts[0].Index.Pack }

func files(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func wait(d time.Duration) { <-time.After(d) } // of the bubble

// What only a dropped snapshot needs is marked, stays for the grace, and goes
// with a commit after that. What a kept one needs, however old, stays.
func TestDroppedPacksAreMarkedAndRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 2}")
		first := h.store(files("shared", "s", "a", "1"))
		second := h.store(files("shared", "s", "a", "2"))
		require.Empty(t, h.marks())
		h.store(files("shared", "s", "a", "3"))
		require.Empty(t, h.marks(), "the first pack has what is shared")
		h.store(files("a", "4"))
		h.store(files("a", "5"))
		marked := h.marks()
		require.Len(t, marked, 3)
		require.Len(t, h.objects("packs/"), 5, "nothing is removed at once")
		wait(snapshot.CollectGrace - time.Second)
		h.store(files("a", "6"))
		require.Contains(t, h.objects("packs/"), h.packOf(first))
		wait(time.Second)
		h.store(files("a", "7"))
		require.NotContains(t, h.objects("packs/"), h.packOf(first))
		require.NotContains(t, h.objects("packs/"), h.packOf(second))
		require.Len(t, h.objects("packs/"), 4, "two of kept snapshots and two that were just marked")
		require.Len(t, h.marks(), 2)
		require.Equal(t, []map[string]string{files("a", "7"), files("a", "6")}, h.readable())
	})
}

// A commit that drops nothing reads nothing, and one that drops something reads
// no root that its caller knows.
func TestRequestsOfACommit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 3}")
	ranges := func() int { return len(h.bucket.Calls("range")) }
	for i := range 3 {
		h.store(files("a", fmt.Sprint(i), "b", strings.Repeat("x", i)))
	}
	require.Equal(t, 2, ranges(), "those of the test: each reads the last snapshot with one request")
	h.store(files("a", "3"))
	require.Equal(t, 5, ranges(), "the dropped one and the one in between")
	_, err := h.sink.StoreFilesUnknown(t.Context(), h.owner, files("a", "4"))
	require.NoError(t, err)
	require.Equal(t, 10, ranges(), "all four")
	require.Len(t, h.marks(), 2)
}

// While a kept snapshot cannot be read, nothing is marked or removed, and the
// commit succeeds. A dropped one that cannot be read loses nothing of others.
func TestDamagedRoots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 3}")
		for i := range 4 {
			h.store(files("a", fmt.Sprint(i)))
		}
		before := h.marks()
		require.Len(t, before, 1)
		list, err := h.sink.List(t.Context(), h.owner)
		require.NoError(t, err)
		damaged := ownDirectory + "packs/" + h.packOf(list[1])
		whole := h.bucket.Objects()[damaged]
		h.bucket.Set(damaged, make([]byte, len(whole)), time.Now())
		wait(48 * time.Hour)
		h.store(files("a", "4"))
		require.Equal(t, before, h.marks())
		require.Len(t, h.objects("packs/"), 5)
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		require.Len(t, h.objects("packs/"), 5)

		h.store(files("a", "5"))
		h.store(files("a", "6")) // drops the damaged one
		require.NotEmpty(t, h.marks())
		require.Len(t, h.readable(), 3)
		wait(snapshot.CollectGrace)
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.NotContains(t, h.objects("packs/"), h.packOf(list[1]))
		require.Len(t, h.readable(), 3)
	})
}

// A list of marks is bounded, so is what one commit removes, and nothing that
// had no place in it is removed within the grace.
func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 1}")
		h.store(files("a", "1"))
		refs := make([]string, snapshot.MaxMarks+500)
		require.NoError(t, h.sink.StoreReferences(t.Context(), h.owner, refs))
		wait(2 * snapshot.PruneGrace)
		for _, id := range refs {
			h.bucket.Set(ownDirectory+"packs/"+id, []byte("x"), time.Now().Add(-snapshot.PruneGrace-time.Minute))
		}
		h.store(files("a", "2"))
		require.Len(t, h.marks(), snapshot.MaxMarks)
		_, err := h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		has := len(h.objects("packs/"))
		require.Greater(t, has, len(refs), "no mark is old enough")
		wait(snapshot.CollectGrace)
		h.store(files("a", "3"))
		require.Len(t, h.objects("packs/"), has+1-snapshot.MaxSweep)
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.LessOrEqual(t, len(h.objects("packs/")), 3)
	})
}

// Prune removes what is old and needed by no snapshot, and nothing else.
func TestPruneRemovesGarbage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 2}")
		s := h.store(files("a", "1"))
		h.store(files("a", "1", "b", "2"))
		old, fresh := time.Now().Add(-snapshot.PruneGrace-time.Second), time.Now().Add(-snapshot.PruneGrace+time.Minute)
		const unknown = "0199c2a4-7d1e-4c5e-9f3a-2b1c4d5e6f7"
		for name, at := range map[string]time.Time{
			"packs/" + unknown + "0": old, "packs/.part-X": old, "seen/" + unknown + "_c_0": old, "heads/.part-Y": old, "heads/0000000000000001.json": old,
			"packs/" + unknown + "1": fresh, "packs/.part-Z": fresh, "seen/" + unknown + "_d_0": fresh, "data/x": old, "../w2/packs/" + unknown + "0": old, "../../file": old,
		} {
			h.bucket.Set(ownDirectory+name, []byte("x"), at)
		}
		before := len(h.bucket.Objects())
		n, err := h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Equal(t, 5, n)
		require.Len(t, h.bucket.Objects(), before-5)
		require.Contains(t, h.objects("packs/"), unknown+"1")
		require.Contains(t, h.objects("packs/"), h.packOf(s))
		require.Len(t, h.readable(), 2)
		wait(2 * snapshot.PruneGrace)
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Len(t, h.objects("packs/"), 2)
		require.Len(t, h.readable(), 2)
		require.Contains(t, h.objects("data/"), "x")
	})
}

// A snapshot may need a pack for its root alone.
func TestPackOfARootIsNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 2}")
		first, second := h.store(files("a", "1")), h.store(files("a", "1"))
		require.NotEqual(t, h.packOf(first), h.packOf(second))
		wait(2 * snapshot.PruneGrace)
		_, err := h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Len(t, h.readable(), 2)
		h.store(files("a", "1"))
		require.Empty(t, h.marks(), "the first pack has what all need")
		h.store(files("a", "2"))
		require.Len(t, h.marks(), 1)
		require.Equal(t, h.packOf(second), h.marks()[0].Pack)
		require.Len(t, h.readable(), 2)
	})
}

// Some commits also prune: what a killed server has left does not stay.
func TestCommitsPrune(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 1}")
	orphan := ownDirectory + "packs/0199c2a4-7d1e-4c5e-9f3a-2b1c4d5e6f70"
	h.bucket.Set(orphan, []byte("x"), time.Now().Add(-2*snapshot.PruneGrace))
	for i := range snapshot.PruneEvery {
		require.Contains(t, h.bucket.Objects(), orphan, "%d", i)
		h.store(files("a", fmt.Sprint(i)))
	}
	require.NotContains(t, h.bucket.Objects(), orphan)
	require.Len(t, h.readable(), 1)
}

// Seen lists go with their snapshots, and those of a snapshot that stays current
// do not pile up.
func TestSeenListsAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 1}")
		first := h.store(files("a", "1"))
		require.Equal(t, []string{first.ID + "_c_0"}, h.objects("seen/"))
		second := h.store(files("a", "2"))
		require.Equal(t, []string{second.ID + "_c_0"}, h.objects("seen/"))
		for i := range 2 * snapshot.MaxSeen {
			h.bucket.Set(ownDirectory+"seen/"+second.ID+fmt.Sprintf("_with_underscore_%d_0", i), nil, time.Now().Add(time.Duration(i)*time.Second))
		}
		_, err := h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Len(t, h.objects("seen/"), 1+2*snapshot.MaxSeen)
		wait(2 * snapshot.PruneGrace)
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Len(t, h.objects("seen/"), snapshot.MaxSeen)
		require.Contains(t, h.objects("seen/"), second.ID+fmt.Sprintf("_with_underscore_%d_0", 2*snapshot.MaxSeen-1))
	})
}

// A restored snapshot stores nothing, and keeps what it needs when the one that
// it restores is dropped.
func TestRestoredSnapshotKeepsItsPacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 2}")
		first := h.store(files("a", "1"))
		require.Positive(t, first.NewBytes())
		h.store(files("a", "2"))
		back, err := h.sink.Restore(t.Context(), h.owner, first.ID)
		require.NoError(t, err)
		require.Zero(t, back.NewBytes())
		require.Equal(t, first.StoredBytes(), back.StoredBytes())
		require.Empty(t, h.marks(), "the first is dropped, its index is that of the restored one")
		wait(2 * snapshot.PruneGrace)
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Equal(t, []map[string]string{files("a", "1"), files("a", "2")}, h.readable())
	})
}

// A server whose clock was ahead does not keep packs for as long as that, and
// marks that are no packs are dropped.
func TestMarksOfTheFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 1}")
		h.store(files("a", "1"))
		h.store(files("a", "2"))
		_, head, err := h.sink.Head(t.Context(), h.owner)
		require.NoError(t, err)
		since := head.Garbage[0].Since.Format(time.RFC3339Nano)
		key := ownDirectory + fmt.Sprintf("heads/%016d.json", head.Generation)
		future := strings.Replace(string(h.bucket.Objects()[key]), `"since":"`+since, `"since":"`+time.Now().Add(1e6*time.Hour).Format(time.RFC3339Nano), 1)
		future = strings.Replace(future, `"garbage":[`, `"garbage":[{"pack":"../heads/x","since":"2000-01-01T00:00:00Z"},`, 1)
		h.bucket.Set(key, []byte(future), time.Now())
		h.store(files("a", "3"))
		require.Len(t, h.marks(), 2)
		wait(snapshot.CollectGrace)
		h.store(files("a", "4"))
		require.Len(t, h.objects("packs/"), 2)
		for _, c := range h.bucket.Calls("delete") {
			require.NotContains(t, c.Key, "..")
		}
	})
}
