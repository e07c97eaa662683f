package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// How archives are compressed. A larger window costs memory at both ends and
// saves little on what tenants keep.
const (
	leastWindow = 128 << 10
	firstWindow = 1 << 20
	mostWindow  = 4 << 20
	maxWindow   = 64 << 20 // what is read, whoever wrote it
	encoders    = 2        // one compresses a block while another is filled
)

// windowFor is the window for a state of which the last part is known. Most
// states are small, and a window that is larger than they are costs more than
// all the rest of their upload.
func windowFor(last *Part) int {
	if last == nil {
		return firstWindow
	}
	size := leastWindow
	for size < mostWindow && int64(size) < last.Bytes {
		size *= 2
	}
	return size
}

func newEncoder(w io.Writer, window int) (*zstd.Encoder, error) {
	z, err := zstd.NewWriter(w, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(encoders), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return z, nil
}

func newDecoder(r io.Reader) (*zstd.Decoder, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return z, nil
}

// meter hashes and counts what is read through it.
type meter struct {
	from     io.Reader
	sum      hash.Hash
	n        int64
	progress func(n int64) // may be nil; gets the bytes of this read
	err      error         // what reading failed with, but for its end
}

func newMeter(from io.Reader, progress func(int64)) *meter {
	return &meter{from: from, sum: sha256.New(), progress: progress}
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.from.Read(b)
	m.sum.Write(b[:n])
	m.n += int64(n)
	if m.progress != nil && n > 0 {
		m.progress(int64(n))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}

func (m *meter) sha256() string { return hex.EncodeToString(m.sum.Sum(nil)) }

// decoded is what an object decompresses to. It tells an object that cannot be
// read from one that is damaged.
type decoded struct {
	from *meter
	z    *zstd.Decoder
}

func (d decoded) Read(b []byte) (int, error) {
	n, err := d.z.Read(b)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case d.from.err != nil:
		return n, d.from.err
	}
	return n, fmt.Errorf("%w: %w", ErrCorrupt, err)
}
