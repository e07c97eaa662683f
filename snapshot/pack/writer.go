package pack

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// Putter stores objects; snapshot.Bucket has it.
type Putter interface {
	// Put stores all bytes of r under a key that no one else uses.
	Put(ctx context.Context, key string, r io.Reader) error
}

// maxPuts is how many packs are stored at once. One more is filled.
const maxPuts = 2

// Memory is what a Writer holds at most, in bytes.
const Memory = (maxPuts+1)*(TargetSize+MaxData) + 8<<20

// Writer stores blobs in packs. It is used by one goroutine.
type Writer struct {
	to       Putter
	dir      string
	progress func(stored int64)
	codec    *codec
	group    *errgroup.Group
	ctx      context.Context //nolint:containedctx // of the group's puts

	id      ID
	buf     []byte
	buffers chan []byte // of packs that are stored
	stored  int64
	packs   int
	rooted  map[ID]int64 // the sizes of packs with a root, once they are complete
}

// NewWriter returns a writer of packs below a directory of a bucket. The
// function progress, if set, gets the bytes of each read of a pack that is being
// stored, from several goroutines. Each writer ends with Flush or Discard.
func NewWriter(ctx context.Context, to Putter, dir string, f *Format, progress func(int64)) *Writer {
	w := &Writer{to: to, dir: dir, progress: progress, codec: newCodec(f), buffers: make(chan []byte, maxPuts+1), rooted: map[ID]int64{}}
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.SetLimit(maxPuts)
	return w
}

// Add stores a blob, with its hash. It does not keep data. The blob is in the
// bucket when Flush has returned nil.
func (w *Writer) Add(kind Kind, hash Hash, data []byte) (Ref, error) {
	if len(data) == 0 || len(data) > kind.maxSize() {
		return Ref{}, fmt.Errorf("a blob of kind %c of %d bytes", kind, len(data))
	}
	if w.buf == nil {
		w.begin()
	}
	w.reserve(len(data) + maxOverhead)
	offset := len(w.buf)
	buf, err := w.codec.encode(w.buf, w.id, kind, data)
	if err != nil {
		return Ref{}, fmt.Errorf("store a blob: %w", err)
	}
	w.buf = buf
	r := Ref{
		Pack: w.id, Offset: uint32(offset), Length: uint32(len(buf) - offset), Size: uint32(len(data)), Hash: hash, //nolint:gosec // bounded
	}
	if kind == Root {
		w.rooted[w.id] = 0
	}
	if len(w.buf) >= TargetSize {
		return r, w.put()
	}
	return r, w.ctx.Err()
}

// begin begins a pack.
func (w *Writer) begin() {
	w.id = ID(uuid.New())
	select {
	case w.buf = <-w.buffers:
	default:
		w.buf = make([]byte, 0, 64<<10)
	}
	w.buf = append(w.buf[:0], header...)
}

// largePack is the size from which a pack is expected to be completed.
const largePack = 1 << 20

// reserve makes room for a blob. A large pack gets the memory of a complete one
// at once: growing would leave several times as much behind.
func (w *Writer) reserve(n int) {
	size := len(w.buf) + n
	if size <= cap(w.buf) || size < largePack {
		return
	}
	w.buf = append(make([]byte, 0, max(size, TargetSize+AverageChunk)), w.buf...)
}

// put stores the pack that is filled. It waits while maxPuts are being stored.
func (w *Writer) put() error {
	buf, key := w.buf, w.dir+w.id.String()
	w.buf = nil
	w.stored += int64(len(buf))
	w.packs++
	if _, ok := w.rooted[w.id]; ok {
		w.rooted[w.id] = int64(len(buf))
	}
	w.group.Go(func() error {
		err := w.to.Put(w.ctx, key, &countedReader{bytes.NewReader(buf), w.progress})
		if err != nil {
			return fmt.Errorf("store %s: %w", key, err)
		}
		w.buffers <- buf
		return nil
	})
	if w.ctx.Err() != nil {
		return w.group.Wait()
	}
	return nil
}

// Flush stores what is not stored, and waits until all packs are. It is the last
// call.
func (w *Writer) Flush() error {
	defer w.codec.close()
	if w.buf != nil {
		if err := w.put(); err != nil {
			return err
		}
	}
	return w.group.Wait()
}

// Discard waits until nothing is being stored, and returns why a store failed.
// The context that the writer was made with has to end first.
func (w *Writer) Discard() error {
	w.codec.close()
	return w.group.Wait()
}

// Stored returns the bytes and the number of packs, with the one that is filled.
func (w *Writer) Stored() (bytes int64, packs int) {
	if w.buf != nil {
		return w.stored + int64(len(w.buf)), w.packs + 1
	}
	return w.stored, w.packs
}

// Filling returns the pack that is being filled and its size, if there is one.
func (w *Writer) Filling() (id ID, size int64, ok bool) { return w.id, int64(len(w.buf)), w.buf != nil }

// RootedSize returns the size of a pack that has a root, after Flush.
func (w *Writer) RootedSize(id ID) int64 { return w.rooted[id] }

// countedReader reports what is read.
type countedReader struct {
	from     *bytes.Reader
	progress func(int64)
}

func (r *countedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if r.progress != nil && n > 0 {
		r.progress(int64(n))
	}
	return n, err
}
