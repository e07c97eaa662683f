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

// Compression parameters. A larger window costs memory on both sides and saves
// little on typical state.
const (
	minWindow          = 128 << 10
	defaultWindow      = 1 << 20
	maxEncoderWindow   = 4 << 20
	maxDecoderWindow   = 64 << 20 // accepted when reading, whatever program wrote it
	encoderConcurrency = 2        // one compresses a block while another is filled
)

// windowFor returns the window for a state whose last part is known. Most
// states are small, and a window larger than the state costs more than the rest
// of the upload.
func windowFor(last *Part) int {
	if last == nil {
		return defaultWindow
	}
	size := minWindow
	for size < maxEncoderWindow && int64(size) < last.Bytes {
		size *= 2
	}
	return size
}

func newEncoder(w io.Writer, window int) (*zstd.Encoder, error) {
	z, err := zstd.NewWriter(w, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(encoderConcurrency), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return z, nil
}

func newDecoder(r io.Reader) (*zstd.Decoder, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxDecoderWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return z, nil
}

// hashingReader hashes and counts what is read through it.
type hashingReader struct {
	from     io.Reader
	sum      hash.Hash
	n        int64
	progress func(n int64) // may be nil; gets the bytes of this read
	err      error         // the read error, other than io.EOF
}

func newHashingReader(from io.Reader, progress func(int64)) *hashingReader {
	return &hashingReader{from: from, sum: sha256.New(), progress: progress}
}

func (m *hashingReader) Read(b []byte) (int, error) {
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

func (m *hashingReader) sha256() string { return hex.EncodeToString(m.sum.Sum(nil)) }

// decodedReader decompresses an object. It distinguishes an object that cannot
// be read from one that is damaged.
type decodedReader struct {
	from *hashingReader
	z    *zstd.Decoder
}

func (d decodedReader) Read(b []byte) (int, error) {
	n, err := d.z.Read(b)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case d.from.err != nil:
		return n, d.from.err
	}
	return n, fmt.Errorf("%w: %w", ErrCorrupt, err)
}
