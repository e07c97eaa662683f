package index

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// randomTree returns the records of a random tree, whose chunks it stores. Each
// file's chunks depend on its seed alone.
func randomTree(t *testing.T, random *rand.Rand, w *pack.Writer, f *pack.Format, n int) []Record {
	t.Helper()
	dirs, kinds := []string{""}, map[string]tree.Kind{}
	for range n {
		name := dirs[random.IntN(len(dirs))] + fmt.Sprintf(".%c%s", "aZ-~\xff0"[random.IntN(6)], strings.Repeat("é", random.IntN(4)))
		if kinds[name] != 0 {
			continue
		}
		kinds[name] = []tree.Kind{tree.File, tree.File, tree.Dir, tree.Link}[random.IntN(4)]
		if kinds[name] == tree.Dir {
			dirs = append(dirs, name+"/")
		}
	}
	var all []Record
	hash := f.Hasher()
	for name, kind := range kinds {
		e := tree.Entry{
			Path: name, Kind: kind, Mode: uint32(random.IntN(0o2000)), Owner: random.Int64N(1<<32+1) - 1, Group: random.Int64N(5) - 1,
			ModTime: time.Unix(random.Int64N(1<<40)-1<<39, random.Int64N(1e9)),
		}
		if kind == tree.Link {
			e.Target = strings.Repeat("../x", 1+random.IntN(9))
		}
		r := Record{Entry: e}
		for i := random.IntN(6); i > 0 && kind == tree.File; i-- {
			c := Chunk{Hole: 1 + random.Int64N(1<<40)}
			if random.IntN(3) > 0 {
				data := fmt.Appendf(nil, "%s %d", name, i)
				ref, err := w.Add(pack.Data, hash(pack.Data, data), data)
				require.NoError(t, err)
				c = Chunk{Ref: ref}
			}
			r.Chunks = append(r.Chunks, c)
			r.Size += c.Size()
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int { return tree.Compare(a.Path, b.Path) })
	return split(random, all)
}

// split makes several records of some files.
func split(random *rand.Rand, all []Record) (records []Record) {
	for _, r := range all {
		if len(r.Chunks) < 2 || random.IntN(2) == 0 {
			records = append(records, r)
			continue
		}
		at := 1 + random.IntN(len(r.Chunks)-1)
		rest := Record{Entry: tree.Entry{Path: r.Path, Kind: r.Kind}, Chunks: r.Chunks[at:], Continued: true}
		r.Chunks, r.More = r.Chunks[:at], true
		records = append(records, r, rest)
	}
	return records
}

func readAll(t *testing.T, o *objects, f *pack.Format, ref pack.Ref) (*Root, []Record, error) {
	from := pack.NewReader(o, "packs/", f, nil)
	defer from.Close()
	root, err := Open(t.Context(), from, ref)
	if err != nil {
		return nil, nil, err
	}
	it := root.Records(t.Context(), from)
	defer it.Close()
	var all []Record
	for {
		r, err := it.Next()
		if errors.Is(err, io.EOF) {
			return root, all, nil
		}
		if err != nil {
			return nil, nil, err
		}
		r.Chunks = append([]Chunk(nil), r.Chunks...)
		all = append(all, r)
	}
}

// What a builder gets is what a reader returns, with the totals and with exactly
// the packs that it needs; also based on an index that it shares segments with.
func TestRandomTrees(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		o, f := &objects{}, &pack.Format{Salt: [32]byte{byte(seed)}}
		var previous *Root
		for range 3 {
			w := pack.NewWriter(t.Context(), o, "packs/", f, nil)
			want := randomTree(t, random, w, f, 1+random.IntN(4000))
			b := NewBuilder(w, f, previous, func(id pack.ID) bool { return id[0] < 128 })
			live := map[pack.ID]int64{}
			totals := Totals{}
			for _, r := range want {
				require.NoError(t, b.Add(r))
				if !r.Continued {
					totals.Files++
					totals.Bytes += r.Size
				}
				for _, c := range r.Chunks {
					if c.Hole == 0 {
						live[c.Ref.Pack] += int64(c.Ref.Length)
					}
				}
			}
			require.Equal(t, totals, b.Totals())
			built, ref, err := b.Finish()
			require.NoError(t, err)
			require.NoError(t, w.Flush())
			root, got, err := readAll(t, o, f, ref)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, totals, root.Totals)
			require.Equal(t, built.Segments, root.Segments)
			for _, s := range root.Segments {
				live[s.Pack] += int64(s.Length)
			}
			require.Len(t, root.Packs, len(live))
			for _, p := range root.Packs {
				require.Equal(t, live[p.ID], p.Live)
			}
			previous = root
		}
	}
}

// Segments that are missing, repeated or in another order, and totals that are
// not those of the records, are damage.
func TestDamagedRoots(t *testing.T) {
	t.Parallel()
	o, f := &objects{}, &pack.Format{Salt: [32]byte{1}}
	root, _, _ := build(t, o, f, 20_000, nil, -1)
	for what, change := range map[string]func(*Root){
		"missing":  func(r *Root) { r.Segments = slices.Delete(r.Segments, 3, 4) },
		"the last": func(r *Root) { r.Segments = r.Segments[:len(r.Segments)-1] },
		"repeated": func(r *Root) { r.Segments[3] = r.Segments[2] },
		"swapped":  func(r *Root) { r.Segments[3], r.Segments[2] = r.Segments[2], r.Segments[3] },
		"files":    func(r *Root) { r.Files++ },
		"bytes":    func(r *Root) { r.Bytes-- },
		"hash":     func(r *Root) { r.Segments[5].Hash[0]++ },
	} {
		bad := *root
		bad.Segments = slices.Clone(root.Segments)
		change(&bad)
		w := pack.NewWriter(t.Context(), o, "packs/", f, nil)
		data := encodeRoot(&bad)
		ref, err := w.Add(pack.Root, f.Hasher()(pack.Root, data), data)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		_, _, err = readAll(t, o, f, ref)
		require.ErrorIs(t, err, pack.ErrDamaged, what)
	}
}

// Records that nothing writes are refused, by the reader of segments or by that
// of the whole.
func TestInvalidRecords(t *testing.T) {
	t.Parallel()
	file := func(path string, size int64, chunks ...Chunk) Record {
		return Record{Entry: tree.Entry{Path: path, Kind: tree.File, Size: size}, Chunks: chunks}
	}
	dir := func(path string) Record { return Record{Entry: tree.Entry{Path: path, Kind: tree.Dir}} }
	more, rest := file("f", 2, Chunk{Hole: 1}), file("f", 0, Chunk{Hole: 1})
	more.More, rest.Continued = true, true
	other := rest
	other.Path = "g"
	moreDir, badOwner, badMode, link := dir("d"), dir("d"), dir("d"), Record{Entry: tree.Entry{Path: "l", Kind: tree.Link, Target: "/"}}
	moreDir.More, badOwner.Owner, badMode.Mode = true, 1<<32, 0o4755
	noTarget, zeroTarget := link, link
	noTarget.Target, zeroTarget.Target = "", "a\x00"
	for what, list := range map[string][]Record{
		"absolute": {dir("/a")}, "up": {dir("../a")}, "inner up": {dir("a/../b")}, "dot": {dir(".")}, "empty": {dir("")}, "slash": {dir("a/")}, "double": {dir("a//b")},
		"zero byte": {dir("a\x00")}, "long": {dir(strings.Repeat("a/", 2048) + "a")}, "long name": {dir(strings.Repeat("a", 256))},
		"order": {dir("b"), dir("a")}, "twice": {dir("a"), dir("a")}, "slash order": {dir("a-b"), dir("a/b")},
		"kind": {{Entry: tree.Entry{Path: "p", Kind: 'p'}}}, "continued dir": {moreDir, dir("d")}, "owner": {badOwner}, "mode": {badMode},
		"no target": {noTarget}, "zero target": {zeroTarget}, "below file": {file("f", 0), dir("f/x")}, "below link": {link, dir("l/x")},
		"below continued": {more, rest, dir("f/x")},
		"short":           {file("f", 2, Chunk{Hole: 1})}, "long content": {file("f", 1, Chunk{Hole: 1}, Chunk{Hole: 1})}, "overflow": {file("f", 1, Chunk{Hole: 1<<63 - 1}, Chunk{Hole: 1<<63 - 1}, Chunk{Hole: 3})},
		"not continued": {more}, "continued by another": {more, other}, "continues nothing": {rest}, "interrupted": {more, dir("g")},
	} {
		s := newSegment()
		for _, r := range list {
			s.add(r)
		}
		require.ErrorIs(t, readRaw(t, s.bytes(), list), pack.ErrDamaged, what)
	}
	for what, list := range map[string][]Record{
		"plain": {dir("a"), dir("a/b"), dir("a-b"), file("f", 0), dir("f2"), link}, "continued": {more, rest},
		"limits": {dir(strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 255)+"/", 16), "/"))},
	} {
		s := newSegment()
		for _, r := range list {
			s.add(r)
		}
		require.NoError(t, readRaw(t, s.bytes(), list), what)
	}
}

// readRaw reads an index of one segment, with the totals of a list.
func readRaw(t *testing.T, data []byte, list []Record) error {
	o, f := &objects{}, &pack.Format{Salt: [32]byte{1}}
	w, hash := pack.NewWriter(t.Context(), o, "packs/", f, nil), f.Hasher()
	ref, err := w.Add(pack.Segment, hash(pack.Segment, data), data)
	require.NoError(t, err)
	root := &Root{Packs: []PackUse{{ID: ref.Pack, Live: 1}}, Segments: []pack.Ref{ref}}
	for _, r := range list {
		if !r.Continued {
			root.Files++
			root.Bytes += r.Size
		}
	}
	b := encodeRoot(root)
	if ref, err = w.Add(pack.Root, hash(pack.Root, b), b); err == nil {
		err = w.Flush()
	}
	require.NoError(t, err)
	_, _, err = readAll(t, o, f, ref)
	return err
}

// A builder refuses what a reader would.
func TestBuilderRefuses(t *testing.T) {
	t.Parallel()
	entry := func(path string, kind tree.Kind) Record {
		return Record{Entry: tree.Entry{Path: path, Kind: kind, Target: "x"}}
	}
	more := entry("f", tree.File)
	more.More = true
	continued := entry("f", tree.File)
	continued.Continued = true
	big := entry("f", tree.File)
	big.Chunks = make([]Chunk, MaxChunks+1)
	for what, list := range map[string][]Record{
		"order": {entry("b", tree.Dir), entry("a", tree.Dir)}, "twice": {entry("a", tree.Dir), entry("a", tree.Dir)}, "continues nothing": {continued},
		"interrupted": {more, entry("g", tree.File)}, "below": {entry("f", tree.File), entry("f/x", tree.File)}, "chunks": {big}, "end": {more},
	} {
		w := pack.NewWriter(t.Context(), &objects{}, "packs/", &pack.Format{}, nil)
		b := NewBuilder(w, &pack.Format{}, nil, nil)
		var err error
		for _, r := range list {
			err = errors.Join(err, b.Add(r))
		}
		if err == nil {
			_, _, err = b.Finish()
		}
		require.Error(t, err, what)
		require.NoError(t, w.Flush())
	}
}

// Each cut and each changed byte of a root or a segment is an error or another
// index, never a panic or an endless loop.
func TestChangedEncodings(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	o, f := &objects{}, &pack.Format{}
	w := pack.NewWriter(t.Context(), o, "packs/", f, nil)
	s := newSegment()
	for _, r := range randomTree(t, random, w, f, 30) {
		s.add(r)
	}
	require.NoError(t, w.Flush())
	good := s.bytes()
	for i := range good {
		_, err := decodeSegment(good[:i])
		require.ErrorIs(t, err, pack.ErrDamaged, "%d", i)
		bad := bytes.Clone(good)
		bad[i] ^= byte(1 + random.IntN(255))
		if _, err := decodeSegment(bad); err != nil {
			require.ErrorIs(t, err, pack.ErrDamaged, "%d", i)
		}
	}
	_, err := decodeSegment(append(good, 0))
	require.ErrorIs(t, err, pack.ErrDamaged)
}
