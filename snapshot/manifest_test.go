package snapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// sample returns a manifest, as it is stored.
func sample(t testing.TB) string {
	t.Helper()
	h := snapshot.Manifest{
		Version: 2, Generation: 3, Fence: 4, Workload: "w", Tenant: "alice", Salt: [32]byte{1},
		Snapshots: []snapshot.Snapshot{{ID: "s", Time: time.Unix(1700000000, 0).UTC(), Parts: []snapshot.Part{{
			SinkPath: "state", Path: "/data", Index: snapshot.Location{
				Pack: "0199c2a4-7d1e-4c5e-9f3a-2b1c4d5e6f70", PackSize: 900, Offset: 8, Length: 5, Size: 5, Hash: strings.Repeat("0a", 32),
			}, Files: 7, Bytes: 8, Stored: 9,
		}}}},
		Garbage: []snapshot.Mark{{Pack: "0199c2a4-7d1e-4c5e-9f3a-2b1c4d5e6f71", Since: time.Unix(1700000000, 0).UTC()}},
	}
	data, err := json.Marshal(h)
	require.NoError(t, err)
	return string(data)
}

// A manifest of another version is refused, not taken for no state; one that
// nothing writes is damaged.
func TestManifestIsChecked(t *testing.T) {
	t.Parallel()
	good := sample(t)
	h, err := snapshot.DecodeManifest([]byte(good), 3)
	require.NoError(t, err)
	require.NoError(t, snapshot.CheckReference(h.Snapshots[0].Parts[0].Index))
	for _, instead := range []string{`"version":1,`, ``, `"version":3,`} {
		require.Contains(t, good, `"version":2,`)
		_, err := snapshot.DecodeManifest([]byte(strings.Replace(good, `"version":2,`, instead, 1)), 3)
		require.ErrorContains(t, err, "version", instead)
	}
	salt := "01" + strings.Repeat("00", 31)
	for old, instead := range map[string]string{
		salt: strings.Repeat("00", 32), salt + `"`: salt[1:] + `"`, `"salt":"`: `"salt":"00`, `"generation":3`: `"generation":4`,
		`"files":7`: `"files":-7`, `"bytes":8`: `"bytes":-8`, `"stored":9`: `"stored":9007199254740993`, `"pack_size":900`: `"pack_size":-1`, "{": "[",
	} {
		require.Contains(t, good, old)
		_, err := snapshot.DecodeManifest([]byte(strings.Replace(good, old, instead, 1)), 3)
		require.ErrorIs(t, err, snapshot.ErrCorrupt, instead)
	}
	for old, instead := range map[string]string{
		"9f3a-2b1c4d5e6f70": "9f3a-2b1c4d5e6f7", `"offset":8`: `"offset":7`, `"hash":"0a`: `"hash":"`, `"length":5`: `"length":500`, `"size":5`: `"size":16777217`,
	} {
		require.Contains(t, good, old)
		h, err := snapshot.DecodeManifest([]byte(strings.Replace(good, old, instead, 1)), 3)
		require.NoError(t, err)
		require.ErrorIs(t, snapshot.CheckReference(h.Snapshots[0].Parts[0].Index), snapshot.ErrCorrupt, instead)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(sample(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := snapshot.DecodeManifest(data, 3)
		if err != nil {
			return
		}
		again, err := snapshot.RoundTrip(h)
		if err != nil {
			// A time of JSON that Go reads and does not write.
			require.False(t, errors.Is(err, snapshot.ErrCorrupt), "%v", err)
			return
		}
		require.Len(t, again.Snapshots, len(h.Snapshots))
		for _, s := range h.Snapshots {
			require.GreaterOrEqual(t, s.StoredBytes(), int64(0))
			require.GreaterOrEqual(t, s.NewBytes(), int64(0))
			for _, p := range s.Parts {
				if err := snapshot.CheckReference(p.Index); err != nil {
					require.ErrorIs(t, err, snapshot.ErrCorrupt)
				}
			}
		}
	})
}

func seenStamps() []tree.Stamp {
	return []tree.Stamp{
		{Inode: 5, ChangeTime: 1700000000123456789}, {}, {Inode: 4, ChangeTime: 1}, {Inode: math.MaxUint64, ChangeTime: math.MaxInt64}, {Inode: 1, ChangeTime: math.MinInt64}, {},
	}
}

// A seen list has the stamps that were added. One that is missing, cut or
// damaged has zero stamps, and nothing that it does is an error.
func TestSeenList(t *testing.T) {
	t.Parallel()
	b, want := snapshottest.NewMemory(), seenStamps()
	for i := range 3000 {
		want = append(want, tree.Stamp{Inode: uint64(i * i), ChangeTime: int64(i) << 30})
	}
	require.NoError(t, snapshot.WriteSeen(t.Context(), b, "k", want))
	require.Equal(t, want, snapshot.ReadSeen(t.Context(), b, "k", len(want)))
	require.Equal(t, tree.Stamp{}, snapshot.ReadSeen(t.Context(), b, "k", len(want)+1)[len(want)])
	require.Equal(t, make([]tree.Stamp, 3), snapshot.ReadSeen(t.Context(), b, "none", 3))
	good := b.Objects()["k"]
	for i := 0; i < len(good); i += 1 + len(good)/100 {
		b.Set("cut", good[:i], time.Now())
		got := snapshot.ReadSeen(t.Context(), b, "cut", len(want))
		for j, s := range got {
			require.True(t, s == want[j] || s.IsZero(), "%d %d", i, j)
		}
	}
}

func FuzzSeen(f *testing.F) {
	b := snapshottest.NewMemory()
	require.NoError(f, snapshot.WriteSeen(f.Context(), b, "k", seenStamps()))
	f.Add(b.Objects()["k"])
	f.Fuzz(func(t *testing.T, data []byte) {
		b := snapshottest.NewMemory()
		b.Set("k", data, time.Now())
		require.Len(t, snapshot.ReadSeen(t.Context(), b, "k", 100), 100, fmt.Sprint(len(data)))
	})
}
