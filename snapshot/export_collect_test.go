package snapshot

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// Bounds of a collection.
const (
	CollectGrace = collectGrace
	PruneGrace   = pruneGrace
	MaxMarks     = maxMarks
	MaxSweep     = maxSweep
	MaxSeen      = maxSeen
	PruneEvery   = pruneEvery
)

// Manifest is a manifest.
type Manifest = manifest

// DecodeManifest decodes a manifest.
func DecodeManifest(data []byte, generation int64) (Manifest, error) {
	return decodeManifest(data, "key", generation)
}

// EncodeManifest encodes a manifest.
func EncodeManifest(h Manifest) ([]byte, error) { return h.encode() }

// Head returns the directory and the current manifest of an owner.
func (s *Sink) Head(ctx context.Context, o Owner) (string, Manifest, error) {
	dir, err := ownerDir(s.sync.Sink, o)
	if err != nil {
		return "", manifest{}, err
	}
	h, err := s.loadManifest(ctx, dir, o)
	return dir, h, err
}

// SetKeys sets the keys of packs.
func (s *Sink) SetKeys(k pack.Keys) { s.keys = k }

// StoreFiles stores files as the current snapshot, without a container. Files
// that the current one has are not stored again.
func (s *Sink) StoreFiles(ctx context.Context, o Owner, files map[string]string) (Snapshot, error) {
	return s.storeFiles(ctx, o, files, true)
}

// StoreFilesUnknown is StoreFiles for a commit that has to read all roots.
func (s *Sink) StoreFilesUnknown(ctx context.Context, o Owner, files map[string]string) (Snapshot, error) {
	return s.storeFiles(ctx, o, files, false)
}

func (s *Sink) storeFiles(ctx context.Context, o Owner, files map[string]string, withRoots bool) (Snapshot, error) {
	dir, h, err := s.Head(ctx, o)
	if err != nil {
		return Snapshot{}, err
	}
	next := h
	if h.Generation == 0 {
		_, _ = rand.Read(next.Salt[:]) // it never fails
	}
	r := s.repository(dir, next)
	var known []knownRoot
	var previous *index.Root
	old := map[pack.Hash]pack.Ref{}
	if now, ok := h.current(); ok {
		from := r.reader(nil)
		defer from.Close()
		if previous, err = r.openPart(ctx, from, now.Parts[0]); err != nil {
			return Snapshot{}, err
		}
		known = append(known, knownRoot{now.Parts[0].Index, previous})
		err = eachRecord(ctx, previous, from, func(r index.Record) error {
			for _, c := range r.Chunks {
				old[c.Ref.Hash] = c.Ref
			}
			return nil
		})
		if err != nil {
			return Snapshot{}, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := pack.NewWriter(ctx, s.bucket, dir+packsDir, r.format, nil)
	root, ref, err := writeFiles(w, r.format, previous, files, old)
	if err != nil {
		cancel()
		return Snapshot{}, errors.Join(err, w.Discard())
	}
	_, size, _ := w.Filling()
	if err := w.Flush(); err != nil {
		return Snapshot{}, err
	}
	stored, _ := w.Stored()
	at := locationOf(ref, size)
	known = append(known, knownRoot{at, root})
	live := int64(0)
	for _, p := range root.Packs {
		live += p.Live
	}
	snap := Snapshot{ID: newID(), Time: time.Now().UTC(), Reason: "request", Parts: []Part{{
		SinkPath: "state", Path: "/data", Pattern: "**", Mode: "sync", Index: at, Files: root.Files, Bytes: root.Bytes, Stored: live, New: stored,
	}}}
	err = s.bucket.Create(ctx, seenKey(dir, snap.ID, "c", 0), []byte("seen"))
	if !withRoots {
		known = nil
	}
	return snap, errors.Join(err, s.commit(ctx, dir, h, next.withSnapshot(snap, s.sync.Keep), known...))
}

// writeFiles writes the data and the index of files.
func writeFiles(w *pack.Writer, f *pack.Format, previous *index.Root, files map[string]string, old map[pack.Hash]pack.Ref) (*index.Root, pack.Ref, error) {
	hash := f.Hasher()
	b := index.NewBuilder(w, f, previous, func(pack.ID) bool { return false })
	for _, name := range slices.SortedFunc(maps.Keys(files), tree.Compare) {
		data := []byte(files[name])
		r := index.Record{Entry: tree.Entry{Path: name, Kind: tree.File, Mode: 0o644, Size: int64(len(data)), ModTime: time.Unix(1700000000, 7)}}
		if len(data) > 0 {
			sum := hash(pack.Data, data)
			ref, ok := old[sum]
			if !ok {
				var err error
				if ref, err = w.Add(pack.Data, sum, data); err != nil {
					return nil, pack.Ref{}, err
				}
			}
			r.Chunks = []index.Chunk{{Ref: ref}}
		}
		if err := b.Add(r); err != nil {
			return nil, pack.Ref{}, err
		}
	}
	return b.Finish()
}

func eachRecord(ctx context.Context, root *index.Root, from *pack.Reader, each func(index.Record) error) error {
	it := root.Records(ctx, from)
	defer it.Close()
	for {
		r, err := it.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return err
		}
	}
}

// ReadFiles reads the files of a kept snapshot.
func (s *Sink) ReadFiles(ctx context.Context, o Owner, snap Snapshot) (map[string]string, error) {
	dir, h, err := s.Head(ctx, o)
	if err != nil {
		return nil, err
	}
	r := s.repository(dir, h)
	from := r.reader(nil)
	defer from.Close()
	root, err := r.openPart(ctx, from, snap.Parts[0])
	if err != nil {
		return nil, err
	}
	own := from.Clone()
	defer own.Close()
	files := map[string]string{}
	err = eachRecord(ctx, root, from, func(r index.Record) error {
		var data []byte
		for _, c := range r.Chunks {
			var err error
			if data = append(data, make([]byte, c.Hole)...); c.Hole > 0 {
				continue
			}
			if data, err = own.Blob(ctx, data, pack.Data, c.Ref); err != nil {
				return err
			}
		}
		if r.Kind == tree.File {
			files[r.Path] += string(data)
		}
		return nil
	})
	return files, err
}

// NeededPacks returns the objects of the packs that kept snapshots need.
func (s *Sink) NeededPacks(ctx context.Context, o Owner) (map[string]bool, error) {
	dir, h, err := s.Head(ctx, o)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	err = s.repository(dir, h).eachRoot(ctx, partsOf(h.Snapshots), nil, func(root *index.Root, in pack.ID) {
		needed[dir+packsDir+in.String()] = true
		for _, p := range root.Packs {
			needed[dir+packsDir+p.ID.String()] = true
		}
	})
	return needed, err
}

// StoreReferences stores a snapshot that needs packs which do not exist, one for
// each element of ids, where it puts their names.
func (s *Sink) StoreReferences(ctx context.Context, o Owner, ids []string) error {
	dir, h, err := s.Head(ctx, o)
	if err != nil {
		return err
	}
	r := s.repository(dir, h)
	w := pack.NewWriter(ctx, s.bucket, dir+packsDir, r.format, nil)
	b := index.NewBuilder(w, r.format, nil, func(pack.ID) bool { return false })
	for i := range ids {
		id := pack.ID(uuid.New())
		ids[i] = id.String()
		ref := pack.Ref{Pack: id, Offset: 8, Length: 2, Size: 1}
		err = errors.Join(err, b.Add(index.Record{Entry: tree.Entry{Path: fmt.Sprintf("f%08d", i), Kind: tree.File, Size: 1}, Chunks: []index.Chunk{{Ref: ref}}}))
	}
	root, ref, finishErr := b.Finish()
	_, size, _ := w.Filling()
	if err := errors.Join(err, finishErr, w.Flush()); err != nil {
		return err
	}
	snap := Snapshot{ID: newID(), Parts: []Part{{SinkPath: "state", Index: locationOf(ref, size), Files: root.Files, Bytes: root.Bytes}}}
	return s.commit(ctx, dir, h, h.withSnapshot(snap, s.sync.Keep))
}

// RoundTrip encodes a manifest and decodes it again.
func RoundTrip(h Manifest) (Manifest, error) {
	data, err := json.Marshal(h)
	if err != nil {
		return manifest{}, err
	}
	return decodeManifest(data, "key", h.Generation)
}

// CheckReference checks the reference of a location.
func CheckReference(l Location) error {
	_, err := l.ref()
	return err
}

// WriteSeen stores a seen list.
func WriteSeen(ctx context.Context, b Bucket, key string, stamps []tree.Stamp) error {
	w, err := newSeenWriter(ctx, b, key)
	if err != nil {
		return err
	}
	for _, s := range stamps {
		if err := w.add(s); err != nil {
			w.abort()
			return err
		}
	}
	return w.finish()
}

// ReadSeen reads n stamps of a seen list.
func ReadSeen(ctx context.Context, b Bucket, key string, n int) []tree.Stamp {
	r := openSeen(ctx, b, key)
	defer r.close()
	stamps := make([]tree.Stamp, n)
	for i := range stamps {
		stamps[i] = r.next()
	}
	return stamps
}
