package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

func (h *harness) verified(id string) snapshot.Verification {
	h.Helper()
	v, err := h.sink.Verify(h.Context(), h.owner, id, nil)
	require.NoError(h, err)
	return v
}

// packs returns the keys of the packs.
func (h *harness) packs() []string {
	keys := slices.Collect(maps.Keys(h.bucket.Objects()))
	return slices.DeleteFunc(slices.Sorted(slices.Values(keys)), func(k string) bool { return !strings.Contains(k, "/packs/") })
}

// What is stored is as it was: it is counted, and read once.
func TestVerify(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, mappings: [{path: /}, {path: /more}]}")
	files := []file{dir("data/d"), reg("data/large", random(9<<20)), reg("more/zeros", strings.Repeat("\x00", 5<<20))}
	for i := range 3000 {
		files = append(files, reg(fmt.Sprintf("data/d/%d", i), fmt.Sprint("content ", i)))
	}
	first := h.importTar(pack(t, files...))
	h.importTar(pack(t, reg("data/other", "x")))
	var last snapshot.VerifyProgress
	v, err := h.sink.Verify(t.Context(), h.owner, "", func(p snapshot.VerifyProgress) { last = p })
	require.NoError(t, err)
	require.Empty(t, v.Damages)
	require.Zero(t, v.Damaged)
	require.Equal(t, []any{2, first.Files() + 1, first.Bytes() + 1}, []any{v.Snapshots, v.Files, v.Bytes})
	require.Len(t, h.packs(), v.Objects)
	require.Len(t, h.bucket.Calls("range"), v.Requests)
	require.Less(t, v.Requests, 40, "small files are read together")
	require.Less(t, v.Read, 11<<20+int64(v.Requests)*(128<<10))
	require.Equal(t, []any{v.Bytes, v.Bytes, v.Files}, []any{last.Bytes, last.Of, last.Files})
	require.Equal(t, 1, h.verified(last.Snapshot).Snapshots)

	_, err = h.sink.Verify(t.Context(), h.owner, "none", nil)
	require.ErrorIs(t, err, snapshot.ErrNoSnapshot)
	h.owner.Tenant = "bob"
	require.Zero(t, h.verified("").Snapshots)
}

// Damage of any one object is found, and named with its snapshot and files. Other
// snapshots are good, and can be exported.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 3}")
	var want [][]byte
	var ids []string
	for i := range 3 {
		s := h.importTar(pack(t, reg("data/a", random(3<<20+i)), reg("data/same", random(3<<20+i)), reg(fmt.Sprint("data/", i), "x")))
		ids, want = append(ids, s.ID), append(want, h.exported(s.ID))
	}
	for _, key := range h.packs() {
		data := h.bucket.Objects()[key]
		for what, damage := range map[string]func([]byte) []byte{
			"flipped": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"cut":     func(b []byte) []byte { return b[:len(b)/2] },
			"missing": nil,
		} {
			if damage == nil {
				require.NoError(t, h.bucket.Delete(t.Context(), key))
			} else {
				h.bucket.Set(key, damage(bytes.Clone(data)), time.Now())
			}
			v := h.verified("")
			require.Equal(t, []int{1, 1}, []int{v.Damaged, len(v.Damages)}, what)
			require.Equal(t, 3, v.Snapshots)
			d := v.Damages[0]
			require.Equal(t, "packs/"+path.Base(key), d.Object, what)
			require.Positive(t, d.Files, what)
			if what == "flipped" {
				require.Equal(t, []string{"/data/a", "/data/same"}, d.Paths)
			}
			for i, id := range ids {
				var out bytes.Buffer
				_, err := h.sink.Export(t.Context(), h.owner, id, into(&out))
				if id == d.Snapshot {
					require.ErrorIs(t, err, snapshot.ErrCorrupt, what)
					require.False(t, bytes.HasSuffix(out.Bytes(), make([]byte, 1024)), "it must not look complete")
					require.Equal(t, 1, h.verified(id).Damaged)
					continue
				}
				require.NoError(t, err)
				require.True(t, bytes.Equal(want[i], out.Bytes()))
			}
			h.bucket.Set(key, data, time.Now())
		}
	}
	require.Zero(t, h.verified("").Damaged)
}

// Every byte of a small state matters: whichever is flipped, the damage is found.
func TestVerifyFindsEveryByte(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.importTar(pack(t, reg("data/a", random(300)), dir("data/d"), link("data/l", "a")))
	key := h.packs()[0]
	data := h.bucket.Objects()[key]
	for i := len("HOSTPCK\x01"); i < len(data); i++ {
		bad := bytes.Clone(data)
		bad[i] ^= byte(1 + rand.IntN(255))
		h.bucket.Set(key, bad, time.Now())
		require.Equal(t, 1, h.verified("").Damaged, "byte %d", i)
	}
}

// A damaged segment of an index hides its own files only: damage in others is found,
// and how many files are not known is counted.
func TestVerifyDamagedIndex(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	var files []file
	for i := range 20000 {
		files = append(files, reg(fmt.Sprintf("data/%05d", i), fmt.Sprint(i)))
	}
	s := h.importTar(pack(t, files...))
	key := h.packs()[0]
	data := h.bucket.Objects()[key]
	good := h.verified("")
	found := 0
	for at := len(data) - 1; at > 0; at -= 48 << 10 {
		bad := bytes.Clone(data)
		bad[at] ^= 1
		h.bucket.Set(key, bad, time.Now())
		v := h.verified("")
		require.Equal(t, 1, v.Damaged)
		if strings.HasPrefix(v.Damages[0].Problem, "the index of /data") {
			found++
			require.Equal(t, good.Files, v.Files+v.Damages[0].Files)
			require.Less(t, v.Damages[0].Files, s.Files()/3)
			require.Positive(t, v.Damages[0].Files)
		}
	}
	require.Greater(t, found, 5)
}

// The lists of damages and paths are bounded, the numbers are not.
func TestVerifyBounds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	var files []file
	for i := range 1000 {
		files = append(files, reg(fmt.Sprintf("data/%03d", i), random(9000+i)))
	}
	h.importTar(pack(t, files...))
	for _, key := range h.packs() {
		data := h.bucket.Objects()[key]
		if len(data) > 8<<20 { // the first one has content only
			require.NoError(t, h.bucket.Delete(t.Context(), key))
		}
	}
	v := h.verified("")
	require.Equal(t, 1, v.Damaged)
	require.Greater(t, v.Damages[0].Files, 800)
	require.Len(t, v.Damages[0].Paths, 100)
}

// An error of the bucket is no damage: it ends the verification.
func TestVerifyFailures(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	h := newHarness(t, "")
	h.importTar(pack(t, reg("data/a", random(3<<20))))
	n := h.verified("").Requests
	for i := range n {
		count := 0
		h.bucket.Before(func(c snapshottest.Call) error {
			if c.Op != "range" {
				return nil
			}
			if count++; count > i {
				return failure
			}
			return nil
		})
		v, err := h.sink.Verify(t.Context(), h.owner, "", nil)
		require.ErrorIs(t, err, failure)
		require.Empty(t, v.Damages)
		_, err = h.sink.Export(t.Context(), h.owner, "", into(io.Discard))
		require.ErrorIs(t, err, failure)
		require.NotErrorIs(t, err, snapshot.ErrCorrupt)
	}
}

// replaceWhileRead replaces the current snapshot at the first read of a pack, and
// removes its packs as a commit does after the grace.
func (h *harness) replaceWhileRead() {
	keys := h.packs()
	h.bucket.Before(func(c snapshottest.Call) error {
		if c.Op == "range" {
			h.bucket.Before(nil)
			h.importTar(pack(h, reg("data/b", "x")))
			for _, k := range keys {
				require.NoError(h, h.bucket.Delete(h.Context(), k))
			}
		}
		return nil
	})
}

// A snapshot that is replaced while it is read is not damaged, and not said to be
// whole either: neither by a verification nor by an export.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, keep: 1}")
	old := h.importTar(pack(t, reg("data/a", random(3<<20))))
	h.replaceWhileRead()
	v, err := h.sink.Verify(t.Context(), h.owner, old.ID, nil)
	require.ErrorIs(t, err, snapshot.ErrReplaced)
	require.ErrorIs(t, err, snapshot.ErrNoSnapshot)
	require.Zero(t, v.Damaged)

	h.importTar(pack(t, reg("data/a", random(3<<20))))
	h.replaceWhileRead()
	v = h.verified("")
	require.Equal(t, []int{0, 0}, []int{v.Snapshots, v.Damaged})

	old = h.importTar(pack(t, reg("data/a", random(3<<20))))
	h.replaceWhileRead()
	_, err = h.sink.Export(t.Context(), h.owner, "", into(io.Discard))
	require.ErrorIs(t, err, snapshot.ErrReplaced)
	require.ErrorContains(t, err, old.ID)
	require.NotErrorIs(t, err, snapshot.ErrCorrupt)
}

// The owner's list of snapshots that is damaged is an error, and so is an unknown
// snapshot of an export. A writer's error ends it.
func TestExportErrors(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	_, err := h.sink.Export(t.Context(), h.owner, "", into(io.Discard))
	require.ErrorIs(t, err, snapshot.ErrNoSnapshot)
	h.importTar(pack(t, reg("data/a", random(1<<20))))
	_, err = h.sink.Export(t.Context(), h.owner, "none", into(io.Discard))
	require.ErrorIs(t, err, snapshot.ErrNoSnapshot)
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	_, err = h.sink.Export(t.Context(), h.owner, "", into(w))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.NotErrorIs(t, err, snapshot.ErrCorrupt)
}
