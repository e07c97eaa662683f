package snapshot_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// An upload that fails after any byte or call leaves the last good snapshot
// complete and current, or is complete and current itself. Uploading again
// succeeds.
func TestInterruptedUpload(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 1, mappings: [{path: a}, {path: b}]}")
	old, fresh := map[string]string{"a/": "755", "a/f": "old"}, map[string]string{"a/": "755", "a/f": "new", "b/": "755", "b/g": "new"}
	h.upload(h.container(reg("a/f", "older")))
	h.upload(h.container(reg("a/f", "old")))
	objects, c := h.bucket.Objects(), h.container(reg("a/f", "new"), reg("b/g", "new"))
	committed, done := 0, 0
	enough := 5 // after success only the garbage collection fails
	if !testenv.IsFull() {
		enough = 1
	}
	for n := 0; done < enough; n++ {
		if !testenv.Selects(10, fmt.Sprint("upload interrupted after ", n)) {
			continue
		}
		h.bucket = snapshottest.NewMemory()
		for key, data := range objects {
			h.bucket.Set(key, data, start)
		}
		h.apply("{sink: {type: file}, keep: 1, mappings: [{path: a}, {path: b}]}")
		h.bucket.FailAfter(n)
		_, err := h.sink.Upload(t.Context(), h.rt, h.origin(c))
		h.bucket.ClearFailures()
		kept := h.kept()
		if maps.Equal(kept, fresh) {
			committed++
		} else {
			require.Error(t, err)
			require.Equal(t, old, kept, "after %d", n)
		}
		if err == nil {
			done++
		}
		if n%10 == 0 || err == nil {
			h.upload(c)
			require.Equal(t, fresh, h.kept(), "after %d", n)
		}
		require.Less(t, n, 10_000)
	}
	require.GreaterOrEqual(t, committed, done)
}

// Whatever call fails, once or permanently, before or after its effect, nothing
// is lost: after a successful upload its state is current, and before that the
// previous one.
func TestFailingBucketCalls(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for _, op := range []string{"put", "create", "list", "get", "delete"} {
			for nth := 1; nth <= 3; nth++ {
				h := newHarness(t, "")
				h.upload(h.container(reg("f", "old")))
				n := 0
				fail := func(c snapshottest.Call) error {
					if c.Op == op {
						n++
					}
					if c.Op == op && n == nth {
						return snapshottest.ErrInjected
					}
					return nil
				}
				if lost {
					h.bucket.After(fail)
				} else {
					h.bucket.Before(fail)
				}
				c := h.container(reg("f", "new"))
				_, err := h.sink.Upload(t.Context(), h.rt, h.origin(c))
				h.bucket.ClearFailures()
				if err == nil {
					require.Equal(t, "new", h.kept()["f"], "%s %d", op, nth)
				} else {
					require.ErrorIs(t, err, snapshottest.ErrInjected)
					require.Contains(t, []string{"old", "new"}, h.kept()["f"], "%s %d", op, nth)
				}
				h.upload(c)
				require.Equal(t, "new", h.kept()["f"], "%s %d", op, nth)
			}
		}
	}
}

// A client that repeats the last step because it got no answer finds its own
// manifest: that is not a conflict.
func TestRepeatedCommitIsNoConflict(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	once := false
	h.bucket.After(func(c snapshottest.Call) error {
		if c.Op != "create" || once {
			return nil
		}
		once = true
		return snapshot.ErrExists // as the second attempt of the same request returns
	})
	up := h.upload(h.container(reg("f", "x")))
	now, err := h.sink.Current(t.Context(), h.owner)
	require.NoError(t, err)
	require.Equal(t, up.Snapshot.ID, now.ID)
}

// A download that fails in the middle returns an error, however it fails.
func TestInterruptedDownload(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.upload(h.container(reg("a", "x"), reg("b", incompressible(100_000))))
	to := snapshot.Destination{Owner: h.owner, Container: h.container()}
	h.bucket.Before(func(c snapshottest.Call) error {
		if strings.Contains(c.Key, "/packs/") {
			return errTruncated
		}
		return nil
	})
	_, err := h.sink.Download(t.Context(), h.rt, to)
	require.ErrorIs(t, err, errTruncated)
	h.bucket.ClearFailures()
	h.bucket.FailAfter(50_000) // in the middle of the object
	_, err = h.sink.Download(t.Context(), h.rt, to)
	require.ErrorIs(t, err, snapshottest.ErrInjected)
	h.bucket.ClearFailures()
	_, err = h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: "none"})
	require.ErrorIs(t, err, runtime.ErrNotFound)
	_, err = h.sink.Upload(t.Context(), h.rt, h.origin("none"))
	require.ErrorIs(t, err, runtime.ErrNotFound)
	require.False(t, errors.Is(err, runtime.ErrFileNotFound))
}

// A list of snapshots of another tenant, or of a later version, is refused.
func TestForeignManifest(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.upload(h.container(reg("f", "x")))
	const key = "tenants/alice/.hostler/w/heads/0000000000000001.json"
	mine := string(h.bucket.Objects()[key])
	for old, instead := range map[string]string{`"alice"`: `"mallory"`, `"version":2`: `"version":3`, `"generation":1`: `"generation":2`, "{": "["} {
		require.Contains(t, mine, old)
		h.bucket.Set(key, []byte(strings.Replace(mine, old, instead, 1)), start)
		_, err := h.sink.Upload(t.Context(), h.rt, h.origin(h.container()))
		require.Error(t, err, instead)
		_, err = h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: h.container()})
		require.Error(t, err, instead)
	}
}
