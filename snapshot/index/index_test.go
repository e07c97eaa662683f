package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// objects is a bucket in memory.
type objects struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (o *objects) Put(_ context.Context, key string, r io.Reader) error {
	b, err := io.ReadAll(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string][]byte{}
	}
	o.all[key] = b
	return err
}

func (o *objects) GetRange(_ context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, ok := o.all[key]
	if !ok || offset+size > int64(len(b)) {
		return nil, errors.New("no such object")
	}
	return io.NopCloser(bytes.NewReader(b[offset : offset+size])), nil
}

// build writes an index of n files with one chunk each, and returns its records.
func build(t *testing.T, o *objects, f *pack.Format, n int, previous *Root, change int) (*Root, pack.Ref, []Record) {
	t.Helper()
	w := pack.NewWriter(t.Context(), o, "packs/", f, nil)
	hash := f.Hasher()
	b := NewBuilder(w, f, previous, func(pack.ID) bool { return false })
	shared := pack.Ref{}
	var all []Record
	for i := range n {
		content := fmt.Appendf(nil, "content")
		if shared.Size == 0 {
			var err error
			shared, err = w.Add(pack.Data, hash(pack.Data, content), content)
			require.NoError(t, err)
		}
		chunk := Chunk{Ref: shared}
		if previous != nil {
			chunk = Chunk{Hole: 7}
		}
		r := Record{Entry: tree.Entry{
			Path: fmt.Sprintf("d%03d/f%05d", i/100, i), Kind: tree.File, Mode: 0o644, Owner: tree.OwnUser, Group: 7,
			Size: 7, ModTime: time.Unix(int64(i), 5),
		}, Chunks: []Chunk{{Hole: 7}}}
		if i == change {
			r.Chunks = []Chunk{chunk}
			r.Mode = 0o600
		}
		require.NoError(t, b.Add(r))
		all = append(all, r)
	}
	root, ref, err := b.Finish()
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	return root, ref, all
}

func TestRecordsAreThoseAdded(t *testing.T) {
	o, f := &objects{}, &pack.Format{Salt: [32]byte{1}}
	_, ref, want := build(t, o, f, 20_000, nil, 77)
	from := pack.NewReader(o, "packs/", f, nil)
	defer from.Close()
	root, err := Open(t.Context(), from, ref)
	require.NoError(t, err)
	require.Equal(t, Totals{Files: 20_000, Bytes: 140_000}, root.Totals)
	it := root.Records(t.Context(), from)
	defer it.Close()
	for _, r := range want {
		got, err := it.Next()
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	_, err = it.Next()
	require.ErrorIs(t, err, io.EOF)
}

// A change stores its own segment again, and no other.
func TestSegmentsAreReused(t *testing.T) {
	o, f := &objects{}, &pack.Format{Salt: [32]byte{1}}
	first, _, _ := build(t, o, f, 20_000, nil, -1)
	require.Greater(t, len(first.Segments), 10)
	second, _, _ := build(t, o, f, 20_000, first, 9_000)
	require.Len(t, second.Segments, len(first.Segments))
	changed := 0
	for i := range first.Segments {
		if first.Segments[i] != second.Segments[i] {
			changed++
		}
	}
	require.Equal(t, 1, changed)
}

// decodeSegment returns all records of a segment.
func decodeSegment(b []byte) ([]Record, error) {
	r, err := readSegment(b)
	if err != nil {
		return nil, err
	}
	var all []Record
	for {
		rec, ok, err := r.next(nil)
		if !ok {
			return all, err
		}
		all = append(all, rec)
	}
}

func FuzzSegment(f *testing.F) {
	s := newSegment()
	s.add(Record{Entry: tree.Entry{Path: "a", Kind: tree.Dir, Mode: 0o755}})
	s.add(Record{Entry: tree.Entry{Path: "a/b", Kind: tree.File, Size: 9}, Chunks: []Chunk{{Hole: 4}, {Ref: pack.Ref{Offset: 8, Length: 5, Size: 5}}}, More: true})
	s.add(Record{Entry: tree.Entry{Path: "a/b", Kind: tree.File}, Chunks: []Chunk{{Ref: pack.Ref{Pack: pack.ID{1}, Offset: 8, Length: 5, Size: 5}}}, Continued: true})
	s.add(Record{Entry: tree.Entry{Path: "c", Kind: tree.Link, Target: "a", Owner: tree.OwnUser, Group: 5, ModTime: time.Unix(-5, 6)}})
	f.Add(s.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := decodeSegment(b)
		if err != nil {
			require.ErrorIs(t, err, pack.ErrDamaged)
			return
		}
		again := newSegment()
		for _, r := range all {
			require.True(t, isClean(r.Path))
			require.LessOrEqual(t, r.Mode, uint32(0o1777))
			again.add(r)
		}
		same, err := decodeSegment(again.bytes())
		require.NoError(t, err)
		require.Equal(t, all, same)
	})
}

func FuzzRoot(f *testing.F) {
	f.Add(encodeRoot(&Root{Totals: Totals{Files: 1, Bytes: 2}, Packs: []PackUse{{Live: 3}}, Segments: []pack.Ref{{Offset: 8, Length: 5, Size: 5}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRoot(b)
		if err != nil {
			require.ErrorIs(t, err, pack.ErrDamaged)
			return
		}
		again, err := decodeRoot(encodeRoot(r))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

// The hash of a root is in a list that is not encrypted: the same files in the same
// packs give another one, so that it does not confirm a guess of them.
func TestHashOfARootIsRandom(t *testing.T) {
	t.Parallel()
	f := &pack.Format{Salt: [32]byte{1}}
	hashes := map[pack.Hash]bool{}
	for range 2 {
		o := &objects{}
		w := pack.NewWriter(t.Context(), o, "", f, nil)
		root, ref, err := NewBuilder(w, f, nil, nil).Finish()
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		hashes[ref.Hash] = true
		from := pack.NewReader(o, "", f, nil)
		defer from.Close()
		again, err := Open(t.Context(), from, ref)
		require.NoError(t, err)
		require.Equal(t, root.Nonce, again.Nonce)
	}
	require.Len(t, hashes, 2)
}
