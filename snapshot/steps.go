package snapshot

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// Bounds of a batch. They are also those of its memory: about 24 MiB.
const (
	maxBatchSteps  = 8192
	maxStepText    = 4 << 20   // bytes of paths and targets
	maxStepStored  = 8 << 20   // stored bytes of chunks; the last one may exceed it
	maxBatchGap    = 128 << 10 // between two chunks that are read by one request
	maxGaps        = 8 << 20   // of a batch
	parallelRanges = 4
)

// readStep is the beginning of an entry, or a chunk of the file that began last.
type readStep struct {
	tree.Entry // of a chunk only the path
	begins     bool
	chunk      index.Chunk
}

// stored returns the reference of a step that has content in a pack.
func (s readStep) stored() (pack.Ref, bool) { return s.chunk.Ref, !s.begins && s.chunk.Hole == 0 }

// stepReader reads records as steps, so that a file of any size is read in parts.
type stepReader struct {
	from   *index.Records
	record index.Record
	next   int // chunk of the record
}

func (r *stepReader) step() (readStep, error) {
	for r.next == len(r.record.Chunks) {
		record, err := r.from.Next()
		if err != nil {
			return readStep{}, err
		}
		r.record, r.next = record, 0
		if !record.Continued {
			return readStep{Entry: record.Entry, begins: true}, nil
		}
	}
	r.next++
	return readStep{Entry: tree.Entry{Path: r.record.Path}, chunk: r.record.Chunks[r.next-1]}, nil
}

// batch is some consecutive steps, and the stored bytes of their chunks.
type batch struct {
	steps  []readStep
	ranges []packRange // in the order of comparePlaces
}

// packRange is a part of a pack.
type packRange struct {
	pack       pack.ID
	begin, end int64
	data       []byte
	err        error // why it has no data
}

// fill replaces the steps by the next ones. There are steps also when it returns an
// error, which is io.EOF at the end of the records.
func (b *batch) fill(from *stepReader) error {
	b.steps, b.ranges = b.steps[:0], nil
	text, stored := 0, int64(0)
	for len(b.steps) < maxBatchSteps && text < maxStepText && stored < maxStepStored {
		s, err := from.step()
		if err != nil {
			return err
		}
		b.steps = append(b.steps, s)
		if s.begins {
			text += len(s.Path) + len(s.Target)
		}
		if ref, ok := s.stored(); ok {
			stored += int64(ref.Length)
		}
	}
	return nil
}

// fetch reads the chunks that are needed, by few requests. An error is that of the
// bucket; a range that is missing or too short has its own.
func (b *batch) fetch(ctx context.Context, from *pack.Reader, isNeeded func(pack.Ref) bool) error {
	b.plan(isNeeded)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelRanges)
	for i := range b.ranges {
		r := &b.ranges[i]
		group.Go(func() error {
			own := from.Clone()
			defer own.Close()
			r.data, r.err = own.Range(ctx, r.pack, r.begin, r.end-r.begin, nil)
			if r.err != nil && !isDamage(r.err) {
				return r.err
			}
			return nil
		})
	}
	return group.Wait()
}

// plan sets the ranges.
func (b *batch) plan(isNeeded func(pack.Ref) bool) {
	var refs []pack.Ref
	for _, s := range b.steps {
		if ref, ok := s.stored(); ok && isNeeded(ref) {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b pack.Ref) int {
		return comparePlaces(a.Pack, int64(a.Offset), b.Pack, int64(b.Offset))
	})
	gaps := int64(0)
	for _, ref := range refs {
		begin, end := int64(ref.Offset), int64(ref.Offset)+int64(ref.Length)
		if n := len(b.ranges); n > 0 && b.ranges[n-1].pack == ref.Pack {
			last := &b.ranges[n-1]
			gap := max(begin-last.end, 0)
			if begin <= last.end || gap <= maxBatchGap && gaps+gap <= maxGaps {
				last.end = max(last.end, end)
				gaps += gap
				continue
			}
		}
		b.ranges = append(b.ranges, packRange{pack: ref.Pack, begin: begin, end: end})
	}
}

// bytes returns the stored bytes of a chunk that was needed.
func (b *batch) bytes(ref pack.Ref) ([]byte, error) {
	begin, end := int64(ref.Offset), int64(ref.Offset)+int64(ref.Length)
	i := sort.Search(len(b.ranges), func(i int) bool {
		return comparePlaces(b.ranges[i].pack, b.ranges[i].begin, ref.Pack, begin) > 0
	}) - 1
	r := b.ranges[i]
	if r.err != nil {
		return nil, r.err
	}
	return r.data[begin-r.begin : end-r.begin], nil
}

func comparePlaces(a pack.ID, at int64, b pack.ID, bt int64) int {
	return cmp.Or(slices.Compare(a[:], b[:]), cmp.Compare(at, bt))
}

// isDamage reports whether an error is that of a stored object, and not that of the
// bucket: it is damaged, missing or too short.
func isDamage(err error) bool {
	return errors.Is(err, pack.ErrDamaged) || errors.Is(err, ErrNoObject) || errors.Is(err, ErrCorrupt) || errors.Is(err, io.ErrUnexpectedEOF)
}
