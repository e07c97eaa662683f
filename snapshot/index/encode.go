package index

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// formatVersion begins each segment and each root.
const formatVersion = 1

// Flags of a record.
const (
	flagContinued = 1 << iota
	flagMore
)

// segment is one that is being written.
type segment struct {
	records []byte
	count   int
	last    string // path
	packs   []pack.ID
	known   map[pack.ID]int
}

func newSegment() *segment { return &segment{known: map[pack.ID]int{}} }

// add appends a record.
func (s *segment) add(r Record) {
	b := s.records
	shared := commonPrefix(s.last, r.Path)
	b = binary.AppendUvarint(b, uint64(shared))                         //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(len(r.Path)-shared))             //nolint:gosec // not negative
	b = append(append(b, r.Path[shared:]...), byte(r.Kind), flagsOf(r)) //nolint:makezero // it is empty at first
	if !r.Continued {
		b = binary.AppendUvarint(b, uint64(r.Mode))
		b = binary.AppendVarint(b, r.Owner)
		b = binary.AppendVarint(b, r.Group)
		b = binary.AppendVarint(b, r.ModTime.Unix())
		b = binary.AppendUvarint(b, uint64(r.ModTime.Nanosecond())) //nolint:gosec // not negative
		switch r.Kind {
		case tree.File:
			b = binary.AppendUvarint(b, uint64(r.Size)) //nolint:gosec // not negative
		case tree.Link:
			b = binary.AppendUvarint(b, uint64(len(r.Target)))
			b = append(b, r.Target...)
		}
	}
	if r.Kind == tree.File {
		b = binary.AppendUvarint(b, uint64(len(r.Chunks)))
		for _, c := range r.Chunks {
			b = s.appendChunk(b, c)
		}
	}
	s.records, s.last = b, r.Path
	s.count++
}

func flagsOf(r Record) (flags byte) {
	if r.Continued {
		flags |= flagContinued
	}
	if r.More {
		flags |= flagMore
	}
	return flags
}

// appendChunk appends a chunk: 0 and the size of a hole, or the number of its
// pack in the segment and where it is there.
func (s *segment) appendChunk(b []byte, c Chunk) []byte {
	if c.Hole > 0 {
		return binary.AppendUvarint(append(b, 0), uint64(c.Hole))
	}
	i, ok := s.known[c.Ref.Pack]
	if !ok {
		s.packs = append(s.packs, c.Ref.Pack)
		i = len(s.packs)
		s.known[c.Ref.Pack] = i
	}
	b = binary.AppendUvarint(b, uint64(i)) //nolint:gosec // not negative
	return appendPlace(b, c.Ref)
}

// appendPlace appends a reference without its pack.
func appendPlace(b []byte, r pack.Ref) []byte {
	b = binary.AppendUvarint(b, uint64(r.Offset))
	b = binary.AppendUvarint(b, uint64(r.Length))
	b = binary.AppendUvarint(b, uint64(r.Size))
	return append(b, r.Hash[:]...)
}

// bytes returns the segment: its packs, then its records.
func (s *segment) bytes() []byte {
	b := binary.AppendUvarint([]byte{formatVersion}, uint64(len(s.packs)))
	for _, id := range s.packs {
		b = append(b, id[:]...)
	}
	b = binary.AppendUvarint(b, uint64(s.count)) //nolint:gosec // not negative
	return append(b, s.records...)
}

// endsAfter reports whether a segment ends after a record. It depends on the
// path alone, but for the limits.
func (s *segment) endsAfter(r Record) bool {
	if s.count >= maxRecords || len(s.records) >= softSize {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Path))
	return h.Sum64()>>7&boundaryMask == 0 && !r.More
}

// encodeRoot returns the bytes of a root.
func encodeRoot(r *Root) []byte {
	b := append([]byte{formatVersion}, r.Nonce[:]...)
	b = binary.AppendUvarint(b, uint64(r.Files)) //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(r.Bytes)) //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(len(r.Packs)))
	number := map[pack.ID]uint64{}
	for i, p := range r.Packs {
		number[p.ID] = uint64(i) //nolint:gosec // not negative
		b = append(b, p.ID[:]...)
		b = binary.AppendUvarint(b, uint64(p.Live)) //nolint:gosec // not negative
	}
	b = binary.AppendUvarint(b, uint64(len(r.Segments)))
	for _, s := range r.Segments {
		b = appendPlace(binary.AppendUvarint(b, number[s.Pack]), s)
	}
	return b
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
