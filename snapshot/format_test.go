package snapshot_test

import (
	"crypto/cipher"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/statekey"
)

var update = flag.Bool("update", false, "store the sample of docs/state-format.md again")

// sampleRecords returns the records of the sample, and the data of its chunks.
func sampleRecords(second bool) ([]index.Record, map[*index.Chunk][]byte) {
	data := map[*index.Chunk][]byte{}
	var all []index.Record
	add := func(e tree.Entry, contents ...string) {
		e.ModTime = time.Unix(-5, 999_999_999)
		r := index.Record{Entry: e, Chunks: make([]index.Chunk, len(contents))}
		if len(contents) == 0 {
			r.Chunks = nil
		}
		for i, c := range contents {
			r.Chunks[i] = index.Chunk{Hole: 1 << 20}
			if c != "" {
				r.Chunks[i].Hole = 0
				data[&r.Chunks[i]] = []byte(c)
			}
		}
		all = append(all, r)
	}
	small := "hello\n"
	if second {
		small = "changed\n"
	}
	add(tree.Entry{Path: "d", Kind: tree.Dir, Mode: 0o750, Owner: tree.OwnUser, Group: tree.OwnGroup})
	add(tree.Entry{Path: "d/empty", Kind: tree.File, Mode: 0o600, Owner: 1<<32 - 1, Group: 7})
	add(tree.Entry{Path: "d/long", Kind: tree.File, Mode: 0o644, Size: 900}, strings.Repeat("a", 300))
	all[len(all)-1].More = true
	add(tree.Entry{Path: "d/long", Kind: tree.File}, strings.Repeat("b", 300), strings.Repeat("c", 300))
	all[len(all)-1].Continued, all[len(all)-1].ModTime = true, time.Time{}
	add(tree.Entry{Path: "d/small", Kind: tree.File, Mode: 0o4 << 6, Size: int64(len(small))}, small)
	add(tree.Entry{Path: "d/sparse", Kind: tree.File, Mode: 0o644, Size: 1<<20 + 3}, "", "end")
	add(tree.Entry{Path: "d-x", Kind: tree.Dir, Mode: 0o755})
	if !second {
		add(tree.Entry{Path: "link", Kind: tree.Link, Target: "d/small", Owner: 1000, Group: 1000})
	}
	for i := range 3000 {
		add(tree.Entry{Path: fmt.Sprintf("many-%04d", i), Kind: tree.File, Mode: 0o644})
	}
	add(tree.Entry{Path: "\xff", Kind: tree.Dir, Mode: 0o1777})
	return all, data
}

// described returns what the document's reader returns for the sample.
func described(second bool) (lines []string) {
	records, data := sampleRecords(second)
	for _, r := range records {
		var content strings.Builder
		for i := range r.Chunks {
			if r.Chunks[i].Hole > 0 {
				content.WriteString(strings.Repeat("\x00", int(r.Chunks[i].Hole)))
			}
			content.Write(data[&r.Chunks[i]])
		}
		if r.Continued {
			lines[len(lines)-1] += content.String()
			continue
		}
		lines = append(lines, fmt.Sprintf("%c %q %o %d %d %d.%d %q ", r.Kind, r.Path, r.Mode, r.Owner, r.Group, r.ModTime.Unix(), r.ModTime.Nanosecond(), r.Target)+content.String())
	}
	return lines
}

// sampleKeys are the keys of a file, as packs use them.
type sampleKeys struct{ *statekey.Keys }

func (k sampleKeys) Current() [8]byte { return k.Keys.Current() }

func (k sampleKeys) Pack(key [8]byte, pack [16]byte) (cipher.AEAD, error) {
	return k.Keys.Pack(key, pack)
}

const sampleDir = "testdata/repository"

// writeSample stores the sample as files.
func writeSample(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(sampleDir))
	require.NoError(t, os.MkdirAll(sampleDir, 0o750))
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("sample!!", 4)))
	require.NoError(t, os.WriteFile(filepath.Join(sampleDir, "keys"), []byte(key+"\n"), 0o600))
	keys, err := statekey.Load(filepath.Join(sampleDir, "keys"))
	require.NoError(t, err)
	for _, name := range []string{"plain", "encrypted"} {
		h := newHarness(t, "")
		if name == "encrypted" {
			h.sink.SetKeys(sampleKeys{keys})
		}
		for _, second := range []bool{false, true} {
			records, data := sampleRecords(second)
			require.NoError(t, h.sink.StoreRecords(t.Context(), h.owner, records, data))
		}
		for key, object := range h.bucket.Objects() {
			file := filepath.Join(sampleDir, name, strings.TrimPrefix(key, ownDirectory))
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
			require.NoError(t, os.WriteFile(file, object, 0o600))
		}
	}
}

// The document describes the format: a reader that was written from it alone
// reads the sample, which an earlier program has stored.
func TestDocumentedReader(t *testing.T) {
	if *update {
		writeSample(t)
	}
	for _, name := range []string{"plain", "encrypted"} {
		r := documentedReader{TB: t, dir: filepath.Join(sampleDir, name), keys: filepath.Join(sampleDir, "keys")}
		head := r.head()
		require.Len(t, head.Snapshots, 2)
		for i, second := range []bool{true, false} {
			got := r.snapshot(head.Snapshots[i])
			want := described(second)
			require.Len(t, got, len(want))
			for j := range want {
				require.Equal(t, want[j], got[j], "%s %d", name, j)
			}
		}
		require.Equal(t, name == "encrypted", r.sawEncrypted)
		require.True(t, r.sawCompressed)
		require.True(t, r.sawPlain)
	}
}

// Today's program reads the sample too.
func TestSampleIsRead(t *testing.T) {
	// A checkout gives others access to it, and then it would be refused.
	text, err := os.ReadFile(filepath.Join(sampleDir, "keys"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	keys, err := statekey.Load(file)
	require.NoError(t, err)
	for _, name := range []string{"plain", "encrypted"} {
		h := newHarness(t, "")
		h.sink.SetKeys(sampleKeys{keys})
		root := os.DirFS(filepath.Join(sampleDir, name))
		for _, dir := range []string{"heads", "packs"} {
			entries, err := os.ReadDir(filepath.Join(sampleDir, name, dir))
			require.NoError(t, err)
			for _, e := range entries {
				data, err := readFS(root, dir+"/"+e.Name())
				require.NoError(t, err)
				h.bucket.Set(ownDirectory+dir+"/"+e.Name(), data, time.Now())
			}
		}
		all := h.readable()
		require.Len(t, all, 2)
		require.Equal(t, "changed\n", all[0]["d/small"])
		require.Equal(t, "hello\n", all[1]["d/small"])
		_, err = h.sink.Prune(t.Context(), h.owner)
		require.NoError(t, err)
		require.Len(t, h.readable(), 2)
	}
}
