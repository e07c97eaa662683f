// Package index stores the list of the files of a part of a snapshot: their
// metadata, and where each chunk of their content is.
//
// An index is a sequence of records in the order of tree.Compare, in segments
// that are blobs. Where a segment ends depends on the paths, so that a change
// leaves the other segments as they are: they are blobs that exist already. A
// root lists the segments, and the packs with what is needed from each. An index
// of any size is written and read with the memory of a few segments.
//
// docs/state-format.md has the format.
package index

import (
	"fmt"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// Record is an entry with its content, or, for a file of many chunks, the first
// part of it: the next records continue it.
type Record struct {
	tree.Entry         // without a Stamp
	Chunks     []Chunk // of a file
	Continued  bool    // continues the file of the last record: only Path, Kind and Chunks are set
	More       bool    // the next record continues the file
}

// Chunk is a part of a file's content.
type Chunk struct {
	Ref  pack.Ref
	Hole int64 // that many zeros; then there is no Ref
}

// Size returns the number of bytes of content.
func (c Chunk) Size() int64 {
	if c.Hole > 0 {
		return c.Hole
	}
	return int64(c.Ref.Size)
}

// MaxChunks bounds the chunks of a record.
const MaxChunks = 2048

// Limits of segments.
const (
	maxRecords = 4096
	softSize   = 384 << 10 // a segment ends after the record that reaches it
	// boundaryMask ends a segment after about 1,000 records.
	boundaryMask = 1<<10 - 1
	maxPacks     = 1 << 20 // of a root
	maxSegments  = 1 << 18
)

// Totals are those of an index.
type Totals struct {
	Files int   // records that begin an entry
	Bytes int64 // of content, with holes
}

// PackUse is a pack that an index needs.
type PackUse struct {
	ID   pack.ID
	Live int64 // stored bytes that the index refers to
}

// Root lists the segments of an index and the packs that it needs. Its own
// segments count.
type Root struct {
	Totals
	// Nonce is random. The hash of a root is in a list of snapshots, which is not
	// encrypted: without a nonce, a guess of all names and contents could be checked
	// with it.
	Nonce    [16]byte
	Packs    []PackUse
	Segments []pack.Ref

	partial bool // it has not all segments, and so not the totals
}

// Only returns a root with one of the segments, to read what is left of an index
// that is damaged. A file may begin before it or end after it: its records are not
// compared with its size, and no totals are.
func (r *Root) Only(segment int) *Root {
	return &Root{Segments: r.Segments[segment : segment+1], partial: true}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: the index: "+format, append([]any{pack.ErrDamaged}, args...)...)
}
