package tree

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of what an end sends and of what the other end accepts.
const (
	MaxPath   = 4096 // bytes, as in the kernel
	MaxName   = 255  // bytes of an element of a path
	MaxTarget = 4096 // bytes
	// MaxData bounds the data of an extent. A longer one is several.
	MaxData = 256 << 10
	// A batch has at most MaxBatch entries, whose sizes in memory add up to at most
	// maxBatchSize.
	MaxBatch     = 2048
	maxBatchSize = 512 << 10
	// maxStamps is how many stamps are sent at a time.
	maxStamps = 512
)

// ErrMalformed is an error of what the other end has sent, or of an entry that
// cannot be sent.
var ErrMalformed = errors.New("malformed tree")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// frame is the kind of a message: a byte, then a number, then as many bytes as
// the number. That of frameHole is the length of the hole, and no bytes follow.
type frame byte

// The messages of a scan: the program sends frameBatch, the server answers each
// with frameWant. Then the program sends for each index that is wanted, in order,
// frameGone, or frameFile and extents that add up to its size. It sends frameEnd
// after the last batch.
//
// The messages of a write: the program sends frameStamps without stamps when the
// directory is open. The server sends frameCreate, which extents follow that add up
// to the size of a file, and frameRemove, and frameEnd after the last one. The
// program sends the stamps of the files, in order, at any time, and frameEnd when
// all is written.
const (
	frameBatch  frame = 'B' // entries
	frameWant   frame = 'W' // indexes in a batch
	frameGone   frame = 'G' // nothing: it is no longer a file
	frameFile   frame = 'F' // the attributes of a file as it was opened
	frameData   frame = 'D' // content
	frameHole   frame = 'H' // zeros
	frameCreate frame = 'C' // an entry
	frameRemove frame = 'R' // a path
	frameStamps frame = 'S' // stamps
	frameEnd    frame = 'E' // nothing
)

// maxFrame bounds the numbers of messages.
var maxFrame = map[frame]uint64{
	frameBatch: maxBatchSize, frameWant: MaxBatch * 2, frameGone: 0, frameFile: maxEntrySize,
	frameData: MaxData, frameHole: 1<<63 - 1, frameCreate: maxEntrySize, frameRemove: MaxPath,
	frameStamps: maxStamps * 2 * binary.MaxVarintLen64, frameEnd: 0,
}

// bufferSize is how much is read and written at a time.
const bufferSize = 64 << 10

// writer writes messages.
type writer struct {
	out     *bufio.Writer
	payload []byte // of the message that is built
	left    int64  // what the extents of the last file have still to add up to
}

func newWriter(to io.Writer) writer { return writer{out: bufio.NewWriterSize(to, bufferSize)} }

// header writes the begin of a message.
func (w *writer) header(kind frame, n uint64) error {
	var header [1 + binary.MaxVarintLen64]byte
	_, err := w.out.Write(binary.AppendUvarint(append(header[:0], byte(kind)), n))
	return err
}

// send writes a message.
func (w *writer) send(kind frame, payload []byte) error {
	if err := w.header(kind, uint64(len(payload))); err != nil {
		return err
	}
	_, err := w.out.Write(payload)
	return err
}

// Write writes content of the last file.
func (w *writer) Write(data []byte) (int, error) {
	if int64(len(data)) > w.left {
		return 0, malformed("a file is larger than its entry")
	}
	done := 0
	for done < len(data) {
		part := data[done:min(len(data), done+MaxData)]
		if err := w.send(frameData, part); err != nil {
			return done, err
		}
		done += len(part)
		w.left -= int64(len(part))
	}
	return done, nil
}

// Hole writes that many zeros of the last file.
func (w *writer) Hole(size int64) error {
	if size < 0 || size > w.left {
		return malformed("a file is larger than its entry")
	}
	if size == 0 {
		return nil
	}
	w.left -= size
	return w.header(frameHole, uint64(size))
}

// mayBegin returns an error if the content of the last file is not complete.
func (w *writer) mayBegin() error {
	if w.left > 0 {
		return malformed("a file is %d bytes shorter than its entry", w.left)
	}
	return nil
}

// reader reads messages.
type reader struct {
	in      *bufio.Reader
	payload []byte // of the last message, valid until the next one
	data    []byte // of the last extent
}

func newReader(from io.Reader) reader { return reader{in: bufio.NewReaderSize(from, bufferSize)} }

// next reads the begin of a message.
func (r *reader) next() (frame, uint64, error) {
	b, err := r.in.ReadByte()
	if err != nil {
		return 0, 0, truncated(err)
	}
	n, err := r.number()
	if err != nil {
		return 0, 0, err
	}
	limit, known := maxFrame[frame(b)]
	if !known || n > limit {
		return 0, 0, malformed("message %q with %d bytes", b, n)
	}
	return frame(b), n, nil
}

// number reads a number as package binary encodes it.
func (r *reader) number() (n uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		b, err := r.in.ReadByte()
		if err != nil {
			return 0, truncated(err)
		}
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n, nil
		}
	}
	return 0, malformed("a number is too long")
}

// read reads the bytes of a message. They are valid until the next call.
func (r *reader) read(n uint64) ([]byte, error) {
	if uint64(cap(r.payload)) < n {
		r.payload = make([]byte, n, max(n, 4<<10))
	}
	r.payload = r.payload[:n]
	_, err := io.ReadFull(r.in, r.payload)
	return r.payload, truncated(err)
}

// end reads the end of the stream.
func (r *reader) end() error {
	_, err := r.in.ReadByte()
	if err == nil {
		return malformed("bytes after the end")
	}
	return err
}

// truncated returns the error for a stream that ends before its end mark.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("it is truncated")
	}
	return err
}

// content is the Content of a file in a stream.
type content struct {
	from *reader
	left int64
	err  error
}

// Next implements Content.
func (c *content) Next() ([]byte, int64, error) {
	n, isHole, err := c.begin()
	switch {
	case err != nil:
		return nil, 0, err
	case isHole:
		return nil, n, nil
	case c.from.data == nil:
		c.from.data = make([]byte, MaxData)
	}
	if _, err := io.ReadFull(c.from.in, c.from.data[:n]); err != nil {
		c.err = truncated(err)
		return nil, 0, c.err
	}
	return c.from.data[:n], 0, nil
}

// begin reads the begin of an extent.
func (c *content) begin() (n int64, isHole bool, err error) {
	if c.err == nil && c.left == 0 {
		c.err = io.EOF
	}
	if c.err != nil {
		return 0, false, c.err
	}
	kind, size, err := c.from.next()
	switch {
	case err != nil:
	case kind != frameData && kind != frameHole:
		err = malformed("message %q in the content of a file", byte(kind))
	case size == 0 || size > uint64(c.left):
		err = malformed("an extent of %d bytes where %d are left", size, c.left)
	}
	if err != nil {
		c.err = err
		return 0, false, err
	}
	c.left -= int64(size)
	return int64(size), kind == frameHole, nil
}

// skip reads the rest.
func (c *content) skip() error {
	for {
		n, isHole, err := c.begin()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && !isHole {
			if _, err = c.from.in.Discard(int(n)); err != nil {
				c.err = truncated(err)
				err = c.err
			}
		}
		if err != nil {
			return err
		}
	}
}
