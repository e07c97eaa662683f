package pack

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// Ranger reads parts of objects; snapshot.Bucket has it.
type Ranger interface {
	// GetRange reads size bytes of an object from an offset.
	GetRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error)
}

// MaxHeld is the size of the largest pack that Hold keeps.
const MaxHeld = 1 << 20

// Reader reads blobs. It is used by one goroutine; Clone returns one for
// another.
type Reader struct {
	from     Ranger
	dir      string
	progress func(received int64)
	codec    *codec
	stored   []byte

	heldID ID
	held   []byte
}

// NewReader returns a reader of the packs below a directory of a bucket. The
// function progress, if set, gets the bytes of each request.
func NewReader(from Ranger, dir string, f *Format, progress func(int64)) *Reader {
	return &Reader{from: from, dir: dir, progress: progress, codec: newCodec(f)}
}

// Clone returns a reader of the same packs for another goroutine. It shares the
// pack that is held.
func (r *Reader) Clone() *Reader {
	return &Reader{
		from: r.from, dir: r.dir, progress: r.progress, codec: newCodec(r.codec.format), heldID: r.heldID, held: r.held,
	}
}

// Close releases memory.
func (r *Reader) Close() { r.codec.close() }

// Hold reads a whole small pack, so that its blobs need no more requests. It
// does nothing for one larger than MaxHeld.
func (r *Reader) Hold(ctx context.Context, id ID, size int64) error {
	if size > MaxHeld || size <= 0 || r.held != nil && r.heldID == id {
		return nil
	}
	held, err := r.Range(ctx, id, 0, size, nil)
	if err != nil {
		return err
	}
	r.held, r.heldID = held, id
	return nil
}

// Blob appends the bytes of a blob, verified, to a buffer.
func (r *Reader) Blob(ctx context.Context, to []byte, kind Kind, ref Ref) ([]byte, error) {
	if err := ref.Check(kind); err != nil {
		return nil, err
	}
	end := int64(ref.Offset) + int64(ref.Length)
	if r.held != nil && r.heldID == ref.Pack && end <= int64(len(r.held)) {
		return r.codec.decode(to, kind, ref, r.held[ref.Offset:end])
	}
	var err error
	if r.stored, err = r.Range(ctx, ref.Pack, int64(ref.Offset), int64(ref.Length), r.stored[:0]); err != nil {
		return nil, err
	}
	return r.codec.decode(to, kind, ref, r.stored)
}

// Decode appends the bytes of a blob, verified, that Range has read: stored has
// its Length bytes.
func (r *Reader) Decode(to []byte, kind Kind, ref Ref, stored []byte) ([]byte, error) {
	return r.codec.decode(to, kind, ref, stored)
}

// Range appends bytes of a pack, as stored.
func (r *Reader) Range(ctx context.Context, id ID, offset, size int64, to []byte) ([]byte, error) {
	key := r.dir + id.String()
	object, err := r.from.GetRange(ctx, key, offset, size)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	defer object.Close()
	begin := len(to)
	to = slices.Grow(to, int(size))[:begin+int(size)]
	n, err := io.ReadFull(object, to[begin:])
	if r.progress != nil && n > 0 {
		r.progress(int64(n))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return to, nil
}
