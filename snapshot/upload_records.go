package snapshot

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// errShortIndex indicates that an index has become another one while it is read.
var errShortIndex = fmt.Errorf("%w: an index has changed", ErrCorrupt)

// chunkSize is what a chunk counts in a step without data.
const chunkSize = 80

// recordWriter sends the records of a part to the store, from the first one on
// that the last index does not have at its place. Those before it are counted:
// the store reads them from the last index. So an upload of what has not changed
// gives the store nothing.
type recordWriter struct {
	*pass
	ctx     context.Context //nolint:containedctx // of the pass
	last    *lastIndex
	changed bool
	begin   int // records that the last index begins with, as the new one does
}

// change begins the new index, unless it has begun.
func (w *recordWriter) change() error {
	if w.changed {
		return nil
	}
	w.changed, w.pass.changed = true, true
	last, same := w.last, w.begin
	return w.send(w.ctx, 0, func(s *store) error { return s.begin(last, same) })
}

// same adds a record of the last index.
func (w *recordWriter) same(r index.Record) error {
	if !w.changed {
		w.begin++
		return nil
	}
	r.Chunks = slices.Clone(r.Chunks) // they are the cursor's
	return w.write(r)
}

// write adds a record that the last index does not have.
func (w *recordWriter) write(r index.Record) error {
	if err := w.change(); err != nil {
		return err
	}
	r.Stamp = tree.Stamp{}
	return w.send(w.ctx, len(r.Chunks)*chunkSize, func(s *store) error { return s.record(r) })
}

// chunk adds a chunk to the next record, with its data if it has to be stored.
func (w *recordWriter) chunk(c index.Chunk, data []byte) error {
	if w.newBytes += int64(len(data)); w.newBytes > peekSize {
		if err := w.needMemory(); err != nil {
			return err
		}
	}
	return w.send(w.ctx, len(data)+chunkSize, func(s *store) error { return s.chunk(c, data) })
}

// remember names a chunk that the last index had.
func (w *recordWriter) remember(c index.Chunk) error {
	return w.send(w.ctx, chunkSize, func(s *store) error { s.remember(c); return nil })
}

// end completes the index, if there is a new one.
func (w *recordWriter) end(part int) error {
	if !w.changed {
		return nil
	}
	return w.send(w.ctx, 0, func(s *store) error { return s.end(part) })
}

// fileWriter writes the records of a file that is read, and compares them with
// those of the last index.
type fileWriter struct {
	out  *recordWriter
	head tree.Entry
	last *lastContent // nil when there was no file

	n       int           // chunks
	count   int           // of the record in progress
	records int           // that are complete
	chunks  []index.Chunk // of the record in progress, while nothing has changed
	hole    int64         // at the end, not written yet
}

// addHole adds zeros.
func (f *fileWriter) addHole(size int64) { f.hole += size }

// addData adds a chunk of data. The data must not change later if owned is
// set; kept reports that they are still used then.
func (f *fileWriter) addData(data []byte, owned bool) (kept bool, err error) {
	if isZero(data) {
		f.addHole(int64(len(data)))
		return false, nil
	}
	if err := f.endHole(); err != nil {
		return false, err
	}
	c := index.Chunk{}
	c.Ref.Hash, c.Ref.Size = f.out.hash(pack.Data, data), uint32(len(data)) //nolint:gosec // bounded
	if f.last != nil {
		if err := f.last.reach(f.n); err != nil {
			return false, err
		}
		ref, ok := f.last.find(c.Ref.Hash)
		if ok && (!f.out.changed || !f.out.last.avoid[ref.Pack]) {
			c.Ref = ref
			return false, f.add(c, nil)
		}
	}
	if !owned {
		data = slices.Clone(data)
	}
	return true, f.add(c, data)
}

// endHole writes the hole before a chunk, or at the end.
func (f *fileWriter) endHole() error {
	if f.hole == 0 {
		return nil
	}
	c := index.Chunk{Hole: f.hole}
	f.hole = 0
	if f.last != nil {
		if err := f.last.reach(f.n); err != nil {
			return err
		}
	}
	return f.add(c, nil)
}

// add adds a chunk.
func (f *fileWriter) add(c index.Chunk, data []byte) error {
	if f.count == index.MaxChunks {
		if err := f.endRecord(true); err != nil {
			return err
		}
	}
	if !f.out.changed && data == nil && f.last.isNth(f.n, c) {
		f.chunks = append(f.chunks, c)
	} else {
		if err := f.deviate(); err != nil {
			return err
		}
		if err := f.out.chunk(c, data); err != nil {
			return err
		}
	}
	f.n++
	f.count++
	return nil
}

// deviate sends what was the same until here.
func (f *fileWriter) deviate() error {
	if err := f.out.change(); err != nil {
		return err
	}
	for _, c := range f.chunks {
		if err := f.out.chunk(c, nil); err != nil {
			return err
		}
	}
	f.chunks = nil
	return nil
}

// end completes the file.
func (f *fileWriter) end() error {
	if err := f.endHole(); err != nil {
		return err
	}
	if !f.out.changed && !f.last.endsAt(f.n) {
		if err := f.deviate(); err != nil {
			return err
		}
	}
	return f.endRecord(false)
}

func (f *fileWriter) endRecord(more bool) error {
	f.count, f.chunks = 0, f.chunks[:0]
	if !f.out.changed {
		f.out.begin++
		f.records++
		return nil
	}
	r := index.Record{Entry: f.head, More: more}
	if f.records > 0 {
		r.Entry, r.Continued = tree.Entry{Path: f.head.Path, Kind: tree.File}, true
	}
	f.records++
	return f.out.write(r)
}
