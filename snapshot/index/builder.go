package index

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// Builder writes an index. It is used by one goroutine.
type Builder struct {
	to    *pack.Writer
	hash  func(pack.Kind, []byte) pack.Hash
	old   map[pack.Hash]pack.Ref
	now   *segment
	root  Root
	live  map[pack.ID]int64
	last  string
	leaf  bool // the last record is not a directory
	inner bool // the last record has More
}

// NewBuilder returns a builder of an index whose blobs go to a writer. Segments
// of a previous index that are the same are not stored again; previous may be
// nil. The function avoid reports packs that the index must not refer to.
func NewBuilder(to *pack.Writer, f *pack.Format, previous *Root, avoid func(pack.ID) bool) *Builder {
	b := &Builder{to: to, hash: f.Hasher(), old: map[pack.Hash]pack.Ref{}, now: newSegment(), live: map[pack.ID]int64{}}
	if previous != nil {
		for _, s := range previous.Segments {
			if !avoid(s.Pack) {
				b.old[s.Hash] = s
			}
		}
	}
	return b
}

// Add appends a record. The paths of records ascend in the order of
// tree.Compare. What a reader would refuse is an error.
func (b *Builder) Add(r Record) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if r.Continued != b.inner || r.Continued && r.Path != b.last || !r.Continued && b.last != "" && tree.Compare(b.last, r.Path) >= 0 {
		return fmt.Errorf("index: the record of %.200q does not follow that of %.200q", r.Path, b.last)
	}
	if b.leaf && !r.Continued && isBelow(b.last, r.Path) {
		return fmt.Errorf("index: %.200q is below what is not a directory", r.Path)
	}
	if len(r.Chunks) > MaxChunks {
		return fmt.Errorf("index: %d chunks in a record", len(r.Chunks))
	}
	b.last, b.leaf, b.inner = r.Path, r.Kind != tree.Dir, r.More
	b.now.add(r)
	if !r.Continued {
		b.root.Files++
	}
	for _, c := range r.Chunks {
		b.root.Bytes += c.Size()
		if c.Hole == 0 {
			b.live[c.Ref.Pack] += int64(c.Ref.Length)
		}
	}
	if b.now.endsAfter(r) {
		return b.endSegment()
	}
	return nil
}

// endSegment stores the segment, unless it exists.
func (b *Builder) endSegment() error {
	data := b.now.bytes()
	b.now = newSegment()
	if len(b.root.Segments) >= maxSegments {
		return fmt.Errorf("index: more than %d segments", maxSegments)
	}
	hash := b.hash(pack.Segment, data)
	ref, ok := b.old[hash]
	if !ok {
		var err error
		if ref, err = b.to.Add(pack.Segment, hash, data); err != nil {
			return err
		}
	}
	b.root.Segments = append(b.root.Segments, ref)
	b.live[ref.Pack] += int64(ref.Length)
	return nil
}

// Finish stores the root, and returns it with its reference. The blobs are in
// the bucket once the writer is flushed.
func (b *Builder) Finish() (*Root, pack.Ref, error) {
	if b.inner {
		return nil, pack.Ref{}, fmt.Errorf("index: the last file is not complete")
	}
	if b.now.count > 0 {
		if err := b.endSegment(); err != nil {
			return nil, pack.Ref{}, err
		}
	}
	for id, live := range b.live {
		b.root.Packs = append(b.root.Packs, PackUse{ID: id, Live: live})
	}
	slices.SortFunc(b.root.Packs, func(p, q PackUse) int { return cmp.Or(slices.Compare(p.ID[:], q.ID[:])) })
	if len(b.root.Packs) > maxPacks {
		return nil, pack.Ref{}, fmt.Errorf("index: more than %d packs", maxPacks)
	}
	_, _ = rand.Read(b.root.Nonce[:]) // it never fails
	data := encodeRoot(&b.root)
	ref, err := b.to.Add(pack.Root, b.hash(pack.Root, data), data)
	return &b.root, ref, err
}

// Totals returns those of the records so far.
func (b *Builder) Totals() Totals { return b.root.Totals }
