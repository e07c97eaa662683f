package snapshot

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/tree"
)

// A seen list has the stamp that each file of a part had in one container, in
// the order of the part's index. With it, an upload from that container reads
// only what has changed. It is a hint: without it every file is read. It is
// trusted as far as the tenant's snapshots are, and decides about nothing else.
const seenDir = "seen/"

// seenKey returns the key of the list of one part of a snapshot in a container.
func seenKey(dir, snapshot, container string, part int) string {
	return fmt.Sprintf("%s%s%s_%s_%d", dir, seenDir, snapshot, container, part)
}

// seenHeader begins each list.
const seenHeader = "HOSTSEEN\x01"

// seenWindow is the window of its compression.
const seenWindow = 128 << 10

// seenWriter stores a seen list while it is made. It is used by one goroutine.
type seenWriter struct {
	last  tree.Stamp
	buf   []byte
	to    *bufio.Writer
	zip   *zstd.Encoder
	pipe  *io.PipeWriter
	group errgroup.Group
}

// newSeenWriter begins a list. The caller calls finish or abort.
func newSeenWriter(ctx context.Context, b Bucket, key string) (*seenWriter, error) {
	r, pipe := io.Pipe()
	zip, err := zstd.NewWriter(pipe, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(seenWindow))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	w := &seenWriter{zip: zip, to: bufio.NewWriterSize(zip, 32<<10), pipe: pipe}
	w.group.Go(func() error {
		err := b.Put(ctx, key, r)
		r.CloseWithError(errUploadAborted)
		return err
	})
	_, _ = w.to.WriteString(seenHeader) // finish returns the error
	return w, nil
}

// add appends the stamp of the next file.
func (w *seenWriter) add(s tree.Stamp) error {
	if s.IsZero() {
		return w.to.WriteByte(0)
	}
	w.buf = append(w.buf[:0], 1)
	w.buf = binary.AppendVarint(w.buf, int64(s.Inode-w.last.Inode)) //nolint:gosec // a difference that wraps wraps back
	w.buf = binary.AppendVarint(w.buf, s.ChangeTime-w.last.ChangeTime)
	w.last = s
	_, err := w.to.Write(w.buf)
	return err
}

// finish stores the list.
func (w *seenWriter) finish() error {
	err := w.to.Flush()
	if closed := w.zip.Close(); err == nil {
		err = closed
	}
	w.pipe.CloseWithError(err) // nil is io.EOF
	if stored := w.group.Wait(); err == nil || errors.Is(err, errUploadAborted) {
		err = stored
	}
	return err
}

// abort discards the list.
func (w *seenWriter) abort() {
	w.pipe.CloseWithError(errUploadAborted)
	_ = w.zip.Close()
	_ = w.group.Wait()
}

// seenReader reads a seen list. One that is missing, damaged or too short has
// zero stamps: that is never an error of the transfer. It is used by one
// goroutine.
type seenReader struct {
	object io.Closer // nil when there is no list, or no more of it
	zip    *zstd.Decoder
	from   *bufio.Reader
	last   tree.Stamp
}

// openSeen opens a list.
func openSeen(ctx context.Context, b Bucket, key string) *seenReader {
	object, err := b.Get(ctx, key)
	if err != nil {
		return &seenReader{}
	}
	zip, err := zstd.NewReader(object, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(seenWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		_ = object.Close()
		return &seenReader{}
	}
	r := &seenReader{object: object, zip: zip, from: bufio.NewReaderSize(zip, 32<<10)}
	header := make([]byte, len(seenHeader))
	if _, err := io.ReadFull(r.from, header); err != nil || string(header) != seenHeader {
		r.close()
	}
	return r
}

// next returns the stamp of the next file.
func (r *seenReader) next() tree.Stamp {
	if r.object == nil {
		return tree.Stamp{}
	}
	known, err := r.from.ReadByte()
	if err == nil && known == 0 {
		return tree.Stamp{}
	}
	inode, inodeErr := binary.ReadVarint(r.from)
	changed, changedErr := binary.ReadVarint(r.from)
	if err != nil || inodeErr != nil || changedErr != nil || known != 1 {
		r.close()
		return tree.Stamp{}
	}
	r.last.Inode += uint64(inode) //nolint:gosec // a difference that wraps wraps back
	r.last.ChangeTime += changed
	return r.last
}

// close ends the reading. It may be called again.
func (r *seenReader) close() {
	if r.object != nil {
		r.zip.Close()
		_ = r.object.Close()
		r.object = nil
	}
}
