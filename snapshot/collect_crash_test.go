package snapshot_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// collected returns a harness with an owner whose list is full, who has expired
// and new marks, and packs and seen lists of a failed upload.
func collected(t *testing.T) *harness {
	h := newHarness(t, "{sink: {type: file}, keep: 2}")
	for i := range 4 {
		h.store(files("shared", "s", "a", fmt.Sprint(i)))
	}
	h.bucket.Before(func(c snapshottest.Call) error {
		if c.Op == "create" && strings.Contains(c.Key, "/heads/") {
			return snapshottest.ErrInjected
		}
		return nil
	})
	_, err := h.sink.StoreFiles(t.Context(), h.owner, files("a", "lost"))
	require.ErrorIs(t, err, snapshottest.ErrInjected)
	h.bucket.ClearFailures()
	wait(2 * snapshot.PruneGrace)
	h.store(files("a", "4"))
	h.store(files("a", "5"))
	return h
}

// killAt makes the bucket fail from its nth call on, as if the server had been
// killed there. With lost, the nth call itself takes effect. The result reports
// whether there was an nth call.
func (h *harness) killAt(n int, lost bool) func() bool {
	var mu sync.Mutex
	calls := 0
	h.bucket.Before(func(snapshottest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls > n || calls == n && !lost {
			return snapshottest.ErrInjected
		}
		return nil
	})
	h.bucket.After(func(snapshottest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if calls >= n && lost {
			return snapshottest.ErrInjected
		}
		return nil
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return calls >= n
	}
}

// clean checks that, after the next commit and Prune, each kept snapshot is
// complete and there is nothing but what these need.
func (h *harness) clean() {
	h.Helper()
	h.readable()
	h.store(files("a", "after"))
	wait(2 * snapshot.PruneGrace)
	_, err := h.sink.Prune(h.Context(), h.owner)
	require.NoError(h, err)
	require.Equal(h, files("a", "after"), h.readable()[0])
	needed, err := h.sink.NeededPacks(h.Context(), h.owner)
	require.NoError(h, err)
	list, err := h.sink.List(h.Context(), h.owner)
	require.NoError(h, err)
	for key := range h.bucket.Objects() {
		switch name := strings.TrimPrefix(key, ownDirectory); {
		case strings.HasPrefix(name, "packs/"):
			require.True(h, needed[key], "%s is not needed", key)
		case strings.HasPrefix(name, "seen/"):
			require.True(h, slices.ContainsFunc(list, func(s snapshot.Snapshot) bool { return strings.HasPrefix(name, "seen/"+s.ID+"_") }), key)
		}
	}
	require.Len(h, h.objects("heads/"), 1)
	require.Len(h, h.objects("packs/"), len(needed))
}

// A server that is killed at any request of a commit, a restore or a Prune loses
// nothing: each kept snapshot is complete, the current one is the old or the new
// one, and after the next commit and Prune nothing is left over.
func TestKilledCollection(t *testing.T) {
	t.Parallel()
	actions := map[string]func(*harness) error{
		"commit": func(h *harness) error {
			_, err := h.sink.StoreFiles(h.Context(), h.owner, files("shared", "s", "a", "new"))
			return err
		},
		"commit without roots": func(h *harness) error {
			_, err := h.sink.StoreFilesUnknown(h.Context(), h.owner, files("shared", "s", "a", "new"))
			return err
		},
		"restore": func(h *harness) error {
			list, err := h.sink.List(h.Context(), h.owner)
			if err == nil {
				_, err = h.sink.Restore(h.Context(), h.owner, list[1].ID)
			}
			return err
		},
		"prune": func(h *harness) error {
			_, err := h.sink.Prune(h.Context(), h.owner)
			return err
		},
		"prune of a shorter list": func(h *harness) error {
			h.apply("{sink: {type: file}, keep: 1}")
			_, err := h.sink.Prune(h.Context(), h.owner)
			return err
		},
	}
	for name, action := range actions {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(name, lost), func(t *testing.T) {
				t.Parallel()
				killEverywhere(t, action, lost)
			})
		}
	}
}

func killEverywhere(t *testing.T, action func(*harness) error, lost bool) {
	for n, more := 1, true; more; n++ {
		synctest.Test(t, func(t *testing.T) {
			h := collected(t)
			before := h.readable()
			reached := h.killAt(n, lost)
			err := action(h)
			h.bucket.ClearFailures()
			after := h.readable()
			if more = reached(); !more {
				require.NoError(t, err)
				require.Greater(t, n, 4)
			}
			known := append(before, files("shared", "s", "a", "new"))
			require.True(t, slices.ContainsFunc(known, func(m map[string]string) bool { return maps.Equal(m, after[0]) }), "%v", after[0])
			h.clean()
		})
		require.Less(t, n, 100)
	}
}

// A commit between any two requests of a Prune is not harmed by it, and neither
// is a Prune between two requests of a commit.
func TestPruneDuringCommit(t *testing.T) {
	t.Parallel()
	for _, pruneFirst := range []bool{false, true} {
		for n, more := 1, true; more; n++ {
			synctest.Test(t, func(t *testing.T) {
				h := collected(t)
				i := 0
				commit := func() {
					i++
					_, err := h.sink.StoreFiles(t.Context(), h.owner, files("shared", "s", "a", fmt.Sprint("new", i)))
					require.NoError(t, err)
				}
				prune := func() {
					_, err := h.sink.Prune(t.Context(), h.owner)
					require.NoError(t, err)
				}
				outer, inner := commit, prune
				if pruneFirst {
					outer, inner = prune, func() { commit(); commit(); commit() }
				}
				var mu sync.Mutex
				calls := 0
				h.bucket.Before(func(snapshottest.Call) error {
					mu.Lock()
					calls++
					now := calls == n
					mu.Unlock()
					if now {
						inner()
					}
					return nil
				})
				outer()
				h.bucket.ClearFailures()
				more = calls >= n
				h.readable()
				h.clean()
			})
			require.Less(t, n, 200)
		}
	}
}
