package snapshot_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// another makes the rest of the test run on another server, whose clock is ahead
// of the one before. The bucket's clock is right.
func (h *harness) another(sync string, ahead, bucket time.Duration) {
	wait(ahead)
	h.bucket.SetClock(bucket)
	h.apply(sync)
}

// What a server with a wrong clock collects is not younger than the grace: a mark
// is made and judged by the clock of the bucket.
func TestGraceWithWrongClocks(t *testing.T) {
	t.Parallel()
	const sync = "{sink: {type: file}, keep: 1}"
	for what, clocks := range map[string]struct{ first, second time.Duration }{
		"the second is ahead":         {0, -2 * time.Hour},
		"the first is behind":         {2 * time.Hour, 0},
		"the first is days behind":    {48 * time.Hour, 46 * time.Hour},
		"the second is a month ahead": {0, -31 * 24 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, sync)
			h.bucket.SetClock(clocks.first)
			first := h.store(files("a", "1"))
			h.store(files("a", "2"))
			require.Len(t, h.marks(), 1, what)
			h.another(sync, clocks.first-clocks.second, clocks.second)
			h.store(files("a", "3"))
			_, err := h.sink.Prune(t.Context(), h.owner)
			require.NoError(t, err)
			require.Contains(t, h.objects("packs/"), h.packOf(first), what)
			wait(snapshot.CollectGrace - time.Second)
			h.store(files("a", "4"))
			require.Contains(t, h.objects("packs/"), h.packOf(first), what)
			wait(time.Second)
			h.store(files("a", "5"))
			require.NotContains(t, h.objects("packs/"), h.packOf(first), what)
			require.Empty(t, h.clockObjects(), what)
		})
	}
}

func (h *harness) clockObjects() (names []string) {
	for _, name := range h.objects("heads/") {
		if strings.HasPrefix(name, ".clock-") {
			names = append(names, name)
		}
	}
	return names
}

// A server whose clock is days ahead does not take the packs of a running upload
// for what a failed one has left.
func TestPruneWithWrongClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sync = "{sink: {type: file}, keep: 1}"
		h := newHarness(t, sync)
		h.store(files("a", "1"))
		const running = "0199c2a4-7d1e-4c5e-9f3a-2b1c4d5e6f70"
		h.bucket.Set(ownDirectory+"packs/"+running, []byte("x"), time.Now())
		h.another(sync, 3*snapshot.PruneGrace, -3*snapshot.PruneGrace)
		n, err := h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Contains(t, h.objects("packs/"), running)
		wait(snapshot.PruneGrace + time.Second)
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.NotContains(t, h.objects("packs/"), running)
	})
}

// While the clock of the bucket cannot be read, nothing is removed, and a commit
// succeeds. What its object leaves over is removed.
func TestClockCannotBeRead(t *testing.T) {
	t.Parallel()
	const sync = "{sink: {type: file}, keep: 1}"
	for _, op := range []string{"create", "list", "delete"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, sync)
			first := h.store(files("a", "1"))
			h.store(files("a", "2"))
			h.bucket.Before(func(c snapshottest.Call) error {
				if c.Op == op && strings.Contains(c.Key, "/.clock-") {
					return snapshottest.ErrInjected
				}
				return nil
			})
			h.another(sync, 2*snapshot.PruneGrace, 0)
			_, err := h.sink.Prune(t.Context(), h.owner)
			if op == "delete" {
				require.NoError(t, err)
				require.Len(t, h.clockObjects(), 1)
				h.bucket.ClearFailures()
				wait(snapshot.PruneGrace + time.Second)
				_, err = h.sink.Prune(t.Context(), h.owner)
				require.NoError(t, err)
				require.Empty(t, h.clockObjects())
				return
			}
			require.ErrorIs(t, err, snapshottest.ErrInjected)
			h.store(files("a", "3"))
			require.Contains(t, h.objects("packs/"), h.packOf(first))
			require.Len(t, h.marks(), 2)
			h.store(files("a", "4"))
			require.NotContains(t, h.objects("packs/"), h.packOf(first), "the commit has made the time known")
		})
	}
}

// A snapshot whose root cannot be read for a moment is dropped, and what it needs
// stays for the grace: an export or a restore may be reading it.
func TestUnreadRootsKeepTheGrace(t *testing.T) {
	t.Parallel()
	for _, unread := range []string{"dropped", "kept"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, "{sink: {type: file}, keep: 2}")
			first, second := h.store(files("a", "1")), h.store(files("a", "2"))
			wait(2 * snapshot.PruneGrace)
			root := map[string]string{"dropped": h.packOf(first), "kept": h.packOf(second)}[unread]
			failed := 0
			h.bucket.Before(func(c snapshottest.Call) error {
				if c.Op == "range" && strings.HasSuffix(c.Key, root) {
					if failed++; failed > 0 && (unread == "dropped" || failed == 2) { // the test reads the current one first
						return snapshottest.ErrInjected
					}
				}
				return nil
			})
			_, err := h.sink.StoreFilesUnknown(t.Context(), h.owner, files("a", "3"))
			require.NoError(t, err)
			require.Positive(t, failed)
			h.bucket.ClearFailures()
			require.Empty(t, h.marks())
			_, err = h.sink.Prune(t.Context(), h.owner)
			require.NoError(t, err)
			require.Contains(t, h.objects("packs/"), h.packOf(first), unread)
			wait(snapshot.CollectGrace - time.Second)
			h.store(files("a", "4")) // does not forget it
			_, err = h.sink.Prune(t.Context(), h.owner)
			require.NoError(t, err)
			require.Contains(t, h.objects("packs/"), h.packOf(first), unread)
			wait(time.Second)
			_, err = h.sink.Prune(t.Context(), h.owner)
			require.NoError(t, err)
			require.NotContains(t, h.objects("packs/"), h.packOf(first), unread)
			require.Len(t, h.readable(), 2)
		})
	}
}

// A mark that is made while the time of the bucket is not known has its grace, also
// if the clock of the server is behind.
func TestMarkWithoutTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, "{sink: {type: file}, keep: 1}")
		h.bucket.SetClock(2 * snapshot.CollectGrace)
		first := h.store(files("a", "1"))
		wait(time.Minute * 11) // the time is not known any more
		h.bucket.Before(func(c snapshottest.Call) error {
			if strings.Contains(c.Key, "/.clock-") {
				return snapshottest.ErrInjected
			}
			return nil
		})
		h.store(files("a", "2"))
		require.Len(t, h.marks(), 1)
		h.bucket.Before(nil)
		_, err := h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		h.store(files("a", "3"))
		require.Contains(t, h.objects("packs/"), h.packOf(first))
		wait(snapshot.CollectGrace)
		h.store(files("a", "4"))
		require.NotContains(t, h.objects("packs/"), h.packOf(first))
	})
}
