package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/runtime/runtimetest"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/index"
	packs "github.com/hostler/hostler/snapshot/pack"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// stateFile is an entry of a state, with the content of a file.
type stateFile struct {
	tree.Entry
	body string
	hole int64 // before the body
}

func fileOf(path, body string) stateFile {
	return stateFile{Entry: tree.Entry{
		Path: path, Kind: tree.File, Mode: 0o644, Owner: tree.OwnUser, Group: tree.OwnGroup, ModTime: time.Unix(1700000000, 5), Size: int64(len(body)),
	}, body: body}
}

func dirOf(path string) stateFile {
	f := fileOf(path, "")
	f.Kind, f.Mode = tree.Dir, 0o755
	return f
}

func linkOf(path, target string) stateFile {
	f := fileOf(path, "")
	f.Kind, f.Mode, f.Target = tree.Link, 0, target
	return f
}

// downloads is a bucket with snapshots, and containers to download them to.
type downloads struct {
	testing.TB
	rt     *fake.Runtime
	bucket *snapshottest.Memory
	sync   *workload.Sync
	sink   *snapshot.Sink
	format packs.Format
	head   storedHead
	cut    int  // bytes of a chunk
	apart  bool // each file is in a pack of its own
	once   bool // a chunk is stored once
}

// storedHead is a list of snapshots as it is stored.
type storedHead struct {
	Version    int                 `json:"version"`
	Generation int64               `json:"generation"`
	Workload   string              `json:"workload"`
	Tenant     string              `json:"tenant"`
	Salt       string              `json:"salt"`
	Snapshots  []snapshot.Snapshot `json:"snapshots"`
}

func newDownloads(t testing.TB, mappings ...workload.Mapping) *downloads {
	if mappings == nil {
		mappings = []workload.Mapping{{Path: "/data", Volume: "/data", Pattern: "**", Direction: workload.Bidirectional}}
	}
	h := &downloads{
		TB: t, rt: fake.New(), bucket: snapshottest.NewMemory(), cut: 1 << 20,
		sync: &workload.Sync{Sink: workload.Sink{Prefix: "t/${tenantId}/"}, Keep: 3, MaxSize: 1 << 40, MaxFiles: 1_000_000, Mappings: mappings},
		head: storedHead{Version: 2, Workload: "w", Tenant: "ada", Salt: strings.Repeat("01", 32)},
	}
	h.format.Salt = [32]byte(bytes.Repeat([]byte{1}, 32))
	h.sink = snapshot.New(h.bucket, h.sync)
	return h
}

const ownerPath = "t/ada/.hostler/w/"

func (h *downloads) writer() *packs.Writer {
	return packs.NewWriter(h.Context(), h.bucket, ownerPath+"packs/", &h.format, nil)
}

// store makes a snapshot current. Each part has the files of one mapping.
func (h *downloads) store(id string, parts ...[]stateFile) snapshot.Snapshot {
	h.Helper()
	s := snapshot.Snapshot{ID: id}
	for i, files := range parts {
		m := h.sync.Mappings[i]
		p := h.storePart(files, nil)
		p.SinkPath, p.Path, p.Pattern = m.SinkPath, m.Path, m.Pattern
		s.Parts = append(s.Parts, p)
	}
	h.list(s)
	return s
}

// list makes a snapshot current.
func (h *downloads) list(s snapshot.Snapshot) {
	h.Helper()
	h.head.Generation++
	h.head.Snapshots = append([]snapshot.Snapshot{s}, h.head.Snapshots...)
	data, err := json.Marshal(h.head)
	require.NoError(h, err)
	h.bucket.Set(fmt.Sprintf("%sheads/%016d.json", ownerPath, h.head.Generation), data, start)
}

// storePart stores the content and the index of files. The function change, if
// set, changes each record.
func (h *downloads) storePart(files []stateFile, change func(*index.Record)) snapshot.Part {
	h.Helper()
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b stateFile) int { return tree.Compare(a.Path, b.Path) })
	w := h.writer()
	hash := h.format.Hasher()
	var records []index.Record
	stored := map[packs.Hash]packs.Ref{}
	for _, f := range files {
		r := index.Record{Entry: f.Entry}
		if f.hole > 0 {
			r.Size += f.hole
			r.Chunks = append(r.Chunks, index.Chunk{Hole: f.hole})
		}
		for data := range slices.Chunk([]byte(f.body), h.cut) {
			sum := hash(packs.Data, data)
			ref, ok := stored[sum]
			if !ok || !h.once {
				var err error
				ref, err = w.Add(packs.Data, sum, data)
				require.NoError(h, err)
				stored[sum] = ref
			}
			r.Chunks = append(r.Chunks, index.Chunk{Ref: ref})
		}
		if h.apart && f.body != "" {
			require.NoError(h, w.Flush())
			w = h.writer()
		}
		if change != nil {
			change(&r)
		}
		records = append(records, split(r)...)
	}
	root, ref := h.storeIndex(w, records, change != nil)
	require.NoError(h, w.Flush())
	size := len(h.bucket.Objects()[ownerPath+"packs/"+ref.Pack.String()])
	return snapshot.Part{Files: root.Files, Bytes: root.Bytes, Index: snapshot.Location{
		Pack: ref.Pack.String(), PackSize: int64(size), Offset: ref.Offset, Length: ref.Length, Size: ref.Size, Hash: ref.Hash.String(),
	}}
}

// storeIndex stores an index. A hostile one has what no index may have.
func (h *downloads) storeIndex(w *packs.Writer, records []index.Record, hostile bool) (index.Totals, packs.Ref) {
	h.Helper()
	if hostile {
		return h.storeHostileIndex(w, records)
	}
	b := index.NewBuilder(w, &h.format, nil, nil)
	for _, r := range records {
		require.NoError(h, b.Add(r))
	}
	root, ref, err := b.Finish()
	require.NoError(h, err)
	return root.Totals, ref
}

// storeHostileIndex stores an index of one segment, whose records need not be
// valid.
func (h *downloads) storeHostileIndex(w *packs.Writer, records []index.Record) (total index.Totals, _ packs.Ref) {
	h.Helper()
	number := binary.AppendUvarint
	place := func(b []byte, r packs.Ref) []byte {
		return append(number(number(number(b, uint64(r.Offset)), uint64(r.Length)), uint64(r.Size)), r.Hash[:]...)
	}
	var ids [][16]byte
	body := number(nil, uint64(len(records)))
	for _, r := range records {
		body = append(number(number(body, 0), uint64(len(r.Path))), r.Path...)
		body = append(body, byte(r.Kind), 0)
		body = binary.AppendVarint(binary.AppendVarint(number(body, uint64(r.Mode)), r.Owner), r.Group)
		body = number(binary.AppendVarint(body, r.ModTime.Unix()), uint64(r.ModTime.Nanosecond())) //nolint:gosec // not negative
		if r.Kind == tree.Link {
			body = append(number(body, uint64(len(r.Target))), r.Target...)
		}
		if r.Kind == tree.File {
			body = number(number(body, uint64(r.Size)), uint64(len(r.Chunks))) //nolint:gosec // as it is
			for _, c := range r.Chunks {
				if c.Hole != 0 {
					body = number(append(body, 0), uint64(c.Hole)) //nolint:gosec // as it is
					continue
				}
				ids = append(ids, c.Ref.Pack)
				body = place(number(body, uint64(len(ids))), c.Ref)
			}
		}
		total.Files, total.Bytes = total.Files+1, total.Bytes+r.Size
	}
	segment := number([]byte{1}, uint64(len(ids)))
	for _, id := range ids {
		segment = append(segment, id[:]...)
	}
	segment = append(segment, body...)
	hash := h.format.Hasher()
	ref, err := w.Add(packs.Segment, hash(packs.Segment, segment), segment)
	require.NoError(h, err)
	root := number(number(number([]byte{1}, uint64(total.Files)), uint64(total.Bytes)), 0) //nolint:gosec // as it is
	root = number(append(number(root, 1), ref.Pack[:]...), 1)
	root = place(number(number(root, 1), 0), ref)
	ref, err = w.Add(packs.Root, hash(packs.Root, root), root)
	require.NoError(h, err)
	return total, ref
}

// split returns a record as several, if it has too many chunks.
func split(r index.Record) (records []index.Record) {
	for len(r.Chunks) > index.MaxChunks {
		first := r
		first.Chunks, first.More = r.Chunks[:index.MaxChunks], true
		records = append(records, first)
		r = index.Record{Entry: tree.Entry{Path: r.Path, Kind: r.Kind}, Chunks: r.Chunks[index.MaxChunks:], Continued: true}
	}
	return append(records, r)
}

// container creates a container.
func (h *downloads) container() string {
	h.Helper()
	id := runtimetest.NewID()
	require.NoError(h, h.rt.Create(h.Context(), runtime.Spec{
		ID: id, Command: []string{fake.TestprogPath, "idle"},
		Volumes: []runtime.Volume{{Name: "state", Target: "/data"}, {Name: "more", Target: "/more"}},
	}))
	require.NoError(h, h.rt.Start(h.Context(), id, 1))
	return id
}

func (h *downloads) to(container string) snapshot.Destination {
	return snapshot.Destination{Owner: snapshot.Owner{Workload: "w", Tenant: "ada"}, Container: container}
}

func (h *downloads) download(container string) (snapshot.Transfer, error) {
	return h.sink.Download(h.Context(), h.rt, h.to(container))
}

// update downloads into a container that holds a snapshot.
func (h *downloads) update(container, holds string) (snapshot.Transfer, error) {
	to := h.to(container)
	to.Holds = holds
	return h.sink.Download(h.Context(), h.rt, to)
}

// fresh downloads into a new container.
func (h *downloads) fresh() (string, snapshot.Transfer) {
	h.Helper()
	id := h.container()
	t, err := h.download(id)
	require.NoError(h, err)
	return id, t
}

// listing is what a directory has: by path, everything about an entry.
type listing map[string]string

// listed lists a directory of a container. The times of directories and links
// are no state.
func (h *downloads) listed(container, dir string) listing {
	h.Helper()
	all := listing{}
	s, err := h.rt.ScanTree(context.WithoutCancel(h.Context()), container, dir, tree.ScanOptions{})
	if errors.Is(err, runtime.ErrFileNotFound) {
		return all
	}
	require.NoError(h, err)
	defer s.Close() //nolint:errcheck // it is read to its end
	for {
		entries, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(h, err)
		var indexes []int
		for i, e := range entries {
			all[e.Path] = fmt.Sprintf("%c %o %d:%d %s", e.Kind, e.Mode, e.Owner, e.Group, e.Target)
			if e.Kind == tree.File {
				indexes = append(indexes, i)
			}
		}
		names := slices.Clone(entries)
		require.NoError(h, s.Read(indexes, func(i int, as tree.Entry, c tree.Content) error {
			all[names[i].Path] += fmt.Sprintf("%d %d %s", as.ModTime.UnixNano(), as.Size, summary(c))
			return nil
		}))
	}
}

// summary returns a short text of a content.
func summary(c tree.Content) string {
	var text []byte
	for {
		data, hole, err := c.Next()
		if err != nil {
			break
		}
		if hole > 0 {
			text = fmt.Appendf(text, "<%d>", hole)
		}
		text = append(text, data...)
	}
	if len(text) > 40 {
		return fmt.Sprintf("%x", packsHash(text))
	}
	return string(text)
}

func packsHash(data []byte) packs.Hash {
	return (&packs.Format{}).Hasher()(packs.Data, data)
}

// expected returns the listing of files.
func expected(files []stateFile) listing {
	all := listing{}
	for _, f := range files {
		text := fmt.Sprintf("%c %o %d:%d %s", f.Kind, f.Mode, f.Owner, f.Group, f.Target)
		if f.Kind == tree.File {
			body := []byte(f.body)
			if f.hole > 0 {
				body = fmt.Appendf(nil, "<%d>%s", f.hole, f.body)
			}
			text += fmt.Sprintf("%d %d %s", f.ModTime.UnixNano(), f.Size+f.hole, body)
			if len(body) > 40 {
				text = text[:len(text)-len(body)] + fmt.Sprintf("%x", packsHash(body))
			}
		}
		all[f.Path] = text
	}
	return all
}

// packOf returns the key of a pack.
func packOf(l snapshot.Location) string { return ownerPath + "packs/" + l.Pack }

// ranges returns how many ranges were read since the last call.
func (h *downloads) requests(op string) int { return len(h.bucket.Calls(op)) }
