package index

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// Open reads the root of an index.
func Open(ctx context.Context, from *pack.Reader, root pack.Ref) (*Root, error) {
	data, err := from.Blob(ctx, nil, pack.Root, root)
	if err != nil {
		return nil, err
	}
	return decodeRoot(data)
}

// readAhead is how many segments are read before they are needed.
const readAhead = 4

// Records reads the records of an index, in order. It is used by one goroutine.
// Each ends with Close.
type Records struct {
	root     *Root
	segments chan segmentData
	now      *segmentReader
	chunks   []Chunk
	last     string
	leaf     bool  // the last record is not a directory
	open     bool  // the last record has More
	left     int64 // bytes of the file of the last record that have not come
	totals   Totals
	within   bool // the file of the last record began before these segments
	group    *errgroup.Group
	cancel   context.CancelCauseFunc
	err      error
}

// segmentData is a segment that will have been read.
type segmentData chan []byte

// Records returns the records of an index. Segments are read ahead, in parallel.
func (r *Root) Records(ctx context.Context, from *pack.Reader) *Records {
	ctx, cancel := context.WithCancelCause(ctx)
	it := &Records{root: r, segments: make(chan segmentData, readAhead), cancel: cancel}
	it.group, ctx = errgroup.WithContext(ctx)
	it.group.Go(func() error {
		defer close(it.segments)
		for _, ref := range r.Segments {
			data := make(segmentData, 1)
			select {
			case it.segments <- data:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			it.group.Go(func() error {
				defer close(data)
				own := from.Clone()
				defer own.Close()
				b, err := own.Blob(ctx, nil, pack.Segment, ref)
				if err == nil {
					data <- b
				}
				return err
			})
		}
		return nil
	})
	return it
}

// errClosed ends the reading ahead.
var errClosed = errors.New("the index is not read further")

// Close ends the reading ahead. It may be called again.
func (it *Records) Close() {
	it.cancel(errClosed)
	for range it.segments { //nolint:revive // until the reading has ended
	}
	_ = it.group.Wait()
}

// Next returns the next record, or io.EOF after the last one, when the whole has
// the totals of the root. The chunks are valid until the next call.
func (it *Records) Next() (Record, error) {
	if it.err != nil {
		return Record{}, it.err
	}
	r, err := it.next()
	if err == nil {
		err = it.check(r)
	}
	if err != nil {
		it.err = err
		return Record{}, err
	}
	return r, nil
}

func (it *Records) next() (Record, error) {
	for {
		if it.now != nil {
			r, ok, err := it.now.next(it.chunks)
			if ok || err != nil {
				it.chunks = r.Chunks
				return r, err
			}
			it.now = nil
		}
		data, ok := <-it.segments
		if !ok {
			return Record{}, it.end()
		}
		b, ok := <-data
		if !ok {
			return Record{}, it.failure()
		}
		var err error
		if it.now, err = readSegment(b); err != nil {
			return Record{}, err
		}
	}
}

// failure returns why a segment could not be read.
func (it *Records) failure() error {
	for range it.segments { //nolint:revive // until the reading has ended
	}
	if err := it.group.Wait(); err != nil {
		return err
	}
	return errClosed
}

// end returns io.EOF if all that the root promises has come.
func (it *Records) end() error {
	if err := it.group.Wait(); err != nil {
		return err
	}
	if it.root.partial {
		return io.EOF
	}
	if it.open || it.totals != it.root.Totals {
		return damaged("it has %d entries of %d bytes instead of %d of %d", it.totals.Files, it.totals.Bytes, it.root.Files, it.root.Bytes)
	}
	return io.EOF
}

// check checks what a segment alone cannot: the order of segments, continued
// files, and that the chunks of a file are as long as it.
func (it *Records) check(r Record) error {
	if it.root.partial && r.Continued && (it.last == "" || it.within && r.Path == it.last) {
		it.last, it.open, it.within = r.Path, r.More, r.More
		return nil
	}
	if r.Continued != it.open || r.Continued && r.Path != it.last {
		return damaged("the file %.200q is not complete", it.last)
	}
	if !r.Continued {
		if it.last != "" && tree.Compare(it.last, r.Path) >= 0 {
			return damaged("%.200q follows %.200q", r.Path, it.last)
		}
		// The order has what is below a file or link right after it.
		if it.leaf && isBelow(it.last, r.Path) {
			return damaged("%.200q is below what is not a directory", r.Path)
		}
		it.totals.Files++
		it.totals.Bytes += r.Size
		it.left = r.Size
	}
	for _, c := range r.Chunks {
		if it.left -= c.Size(); it.left < 0 {
			return damaged("the file %.200q has more content than its size", r.Path)
		}
	}
	if !r.More && it.left != 0 {
		return damaged("the file %.200q has less content than its size", r.Path)
	}
	it.last, it.leaf, it.open = r.Path, r.Kind != tree.Dir, r.More
	return nil
}
