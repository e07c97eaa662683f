package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"slices"
	"sync/atomic"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// Verification is the result of reading and checking snapshots.
type Verification struct {
	Snapshots int   // that were checked
	Files     int   // of all of them, with directories and links
	Bytes     int64 // of the files' contents, with holes
	Objects   int   // packs
	Requests  int   // to the bucket
	Read      int64 // bytes from the bucket; what snapshots share is read once
	// Damages are the first ones that were found, and Damaged is how many there are.
	Damages []Damage
	Damaged int
}

// Damage is an object that a snapshot needs, and that is not what was stored.
type Damage struct {
	Object   string // its key below the directory of the tenant and workload
	Snapshot string
	Problem  string   // the first one of the object
	Files    int      // of the snapshot that cannot be restored as they were
	Paths    []string // some of them, in the container; unknown if an index is damaged
}

// VerifyProgress is how far a verification is.
type VerifyProgress struct {
	Snapshot string // that is being checked
	Files    int    // so far, of all snapshots
	Bytes    int64
	Of       int64 // bytes of all snapshots
	Read     int64 // bytes from the bucket
}

// Verify reads all of a snapshot, or all kept ones for "", and compares each
// object with its checksum, and each index with itself. It finds every damage: a
// damaged object does not end it. The error is that of the bucket, or of the list
// of snapshots. Damages of snapshots that newer ones replace in the meantime do not
// count, and neither do these; for one that is named it is ErrReplaced.
func (s *Sink) Verify(ctx context.Context, o Owner, id string, progress func(VerifyProgress)) (Verification, error) {
	result, err := s.verify(ctx, o, id, progress)
	if err != nil {
		return result, fmt.Errorf("verify the snapshots of tenant %q of workload %s: %w", o.Tenant, o.Workload, err)
	}
	return result, nil
}

func (s *Sink) verify(ctx context.Context, o Owner, id string, progress func(VerifyProgress)) (Verification, error) {
	dir, err := ownerDir(s.sync.Sink, o)
	if err != nil {
		return Verification{}, err
	}
	h, err := s.loadManifest(ctx, dir, o)
	if err != nil {
		return Verification{}, err
	}
	chosen, err := h.selected(id)
	if err != nil {
		return Verification{}, err
	}
	counted := &countedBucket{Bucket: s.bucket}
	v := newVerifier(s.repository(dir, h), counted, progress)
	defer v.reader.Close()
	for _, c := range chosen {
		v.progress.Of += c.Bytes()
	}
	for _, c := range chosen {
		v.begin(c)
		for _, p := range c.Parts {
			p.Path = s.pathOf(p)
			if err := v.part(ctx, p); err != nil {
				return v.result, fmt.Errorf("snapshot %s: %w", c.ID, err)
			}
		}
	}
	v.result.Requests, v.result.Read = int(counted.requests.Load()), v.read.Load()
	if v.result.Objects = len(v.packs); v.damages.empty() {
		return v.result, nil
	}
	now, err := s.loadManifest(ctx, dir, o)
	if err != nil {
		return v.result, err
	}
	v.result.Damages, v.result.Damaged = v.damages.of(now.has)
	replaced := v.damages.snapshots(func(id string) bool { return !now.has(id) })
	if v.result.Snapshots -= replaced; replaced > 0 && id != "" {
		return v.result, ErrReplaced
	}
	return v.result, nil
}

// countedBucket counts the reads of ranges.
type countedBucket struct {
	Bucket
	requests atomic.Int64
}

func (b *countedBucket) GetRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	b.requests.Add(1)
	return b.Bucket.GetRange(ctx, key, offset, size)
}

// maxKnown bounds the chunks that are remembered as good, about 32 MiB. Beyond it,
// what several snapshots share is read for each.
const maxKnown = 1 << 20

// verifier checks snapshots. It is used by one goroutine.
type verifier struct {
	repository repository
	reader     *pack.Reader
	read       atomic.Int64 // bytes
	report     func(VerifyProgress)
	progress   VerifyProgress
	result     Verification
	damages    damages
	packs      map[pack.ID]struct{}

	seed  maphash.Seed
	known map[uint64]struct{} // chunks that are good
	batch batch
	chunk []byte
	now   partCheck
}

func newVerifier(r repository, from Bucket, report func(VerifyProgress)) *verifier {
	v := &verifier{report: report, packs: map[pack.ID]struct{}{}, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	r.bucket = from
	v.repository, v.reader = r, r.reader(func(n int64) { v.read.Add(n) })
	return v
}

func (v *verifier) begin(s Snapshot) {
	v.result.Snapshots++
	v.progress.Snapshot, v.damages.snapshot = s.ID, s.ID
}

// advance reports the progress.
func (v *verifier) advance() {
	v.progress.Files, v.progress.Bytes, v.progress.Read = v.result.Files, v.result.Bytes, v.read.Load()
	if v.report != nil {
		v.report(v.progress)
	}
}

// partCheck is what the check of a part has seen.
type partCheck struct {
	path  string // in the container
	packs []index.PackUse
	last  string // path
	left  int64  // bytes of the last file that have not come
	files int
	bytes int64
	// broken means that a segment is missing: what comes next does not fit to what
	// came last, until an entry begins.
	broken bool
}

// part checks a part.
func (v *verifier) part(ctx context.Context, p Part) error {
	root, err := v.repository.openPart(ctx, v.reader, p)
	if err != nil {
		return v.indexDamage(err, p.Index.Pack, p.Files, "the root of the index of "+p.Path)
	}
	v.now = partCheck{path: p.Path, packs: root.Packs}
	for _, u := range root.Packs {
		if len(v.packs) < maxKnown {
			v.packs[u.ID] = struct{}{}
		}
	}
	var broken error // of the first damaged segment
	var object pack.ID
	for n, ref := range root.Segments {
		if err := v.segment(ctx, root.Only(n)); err != nil {
			if !isDamage(err) {
				return err
			}
			if broken == nil {
				broken, object = err, ref.Pack
			} else if object != ref.Pack {
				v.damages.add(ref.Pack.String(), err, 0, "the index of "+p.Path)
			}
			v.now.broken = true
		}
	}
	v.advance()
	if broken == nil {
		if v.now.left == 0 && v.now.files == root.Files && v.now.bytes == root.Bytes {
			return nil
		}
		broken = fmt.Errorf("%w: it has %d entries of %d bytes instead of %d of %d", ErrCorrupt, v.now.files, v.now.bytes, root.Files, root.Bytes)
		return v.indexDamage(broken, p.Index.Pack, 0, "the index of "+p.Path)
	}
	return v.indexDamage(broken, object.String(), root.Files-v.now.files, "the index of "+p.Path)
}

// indexDamage adds damage of an index. It returns an error that is none.
func (v *verifier) indexDamage(err error, object string, files int, what string) error {
	if !isDamage(err) {
		return err
	}
	v.damages.add(object, err, max(files, 0), what)
	return nil
}

// segment checks the entries of a segment and their chunks.
func (v *verifier) segment(ctx context.Context, root *index.Root) error {
	records := root.Records(ctx, v.reader)
	defer records.Close()
	steps := &stepReader{from: records}
	for {
		end := v.batch.fill(steps)
		if err := v.batch.fetch(ctx, v.reader, v.isUnknown); err != nil {
			return err
		}
		for _, s := range v.batch.steps {
			if err := v.step(ctx, s); err != nil {
				return err
			}
		}
		v.advance()
		if errors.Is(end, io.EOF) {
			return nil
		}
		if end != nil {
			return end
		}
	}
}

// step checks a step. An error that is damage is that of the index.
func (v *verifier) step(ctx context.Context, s readStep) error {
	n := &v.now
	if s.begins {
		if !n.broken && (n.left != 0 || n.last != "" && tree.Compare(n.last, s.Path) >= 0) {
			return fmt.Errorf("%w: the index: %.200q follows %.200q", ErrCorrupt, s.Path, n.last)
		}
		n.broken = false
		n.last, n.left = s.Path, s.Size
		n.files++
		n.bytes += s.Size
		v.result.Files++
		v.result.Bytes += s.Size
		return nil
	}
	if n.left -= s.chunk.Size(); n.left < 0 && !n.broken {
		return fmt.Errorf("%w: the index: %.200q has more content than its size", ErrCorrupt, s.Path)
	}
	ref, ok := s.stored()
	if !ok || !v.isUnknown(ref) {
		return nil
	}
	err := v.content(ctx, ref)
	if err == nil {
		if len(v.known) < maxKnown {
			v.known[v.fingerprint(ref)] = struct{}{}
		}
		return nil
	}
	if !isDamage(err) {
		return err
	}
	v.damages.addPath(ref.Pack.String(), err, path.Join(n.path, s.Path))
	return nil
}

// content reads and checks a chunk.
func (v *verifier) content(ctx context.Context, ref pack.Ref) error {
	_, ok := slices.BinarySearchFunc(v.now.packs, ref.Pack, func(u index.PackUse, id pack.ID) int { return slices.Compare(u.ID[:], id[:]) })
	if !ok {
		return fmt.Errorf("%w: the index does not list the pack, so that it is removed as garbage", ErrCorrupt)
	}
	stored, err := v.batch.bytes(ref)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		// Of several chunks in one range, only the last ones are missing.
		stored, err = v.reader.Range(ctx, ref.Pack, int64(ref.Offset), int64(ref.Length), nil)
	}
	if err != nil {
		return err
	}
	v.chunk, err = v.reader.Decode(v.chunk[:0], pack.Data, ref, stored)
	return err
}

func (v *verifier) isUnknown(ref pack.Ref) bool {
	_, ok := v.known[v.fingerprint(ref)]
	return !ok
}

// fingerprint returns a number of a reference, which no tenant can
// predict.
func (v *verifier) fingerprint(ref pack.Ref) uint64 {
	var h maphash.Hash
	h.SetSeed(v.seed)
	_, _ = h.Write(ref.Pack[:])
	_, _ = h.Write(ref.Hash[:])
	var b [12]byte
	binary.BigEndian.PutUint32(b[:], ref.Offset)
	binary.BigEndian.PutUint32(b[4:], ref.Length)
	binary.BigEndian.PutUint32(b[8:], ref.Size)
	_, _ = h.Write(b[:])
	return h.Sum64()
}
