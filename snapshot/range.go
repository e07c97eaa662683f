package snapshot

import (
	"fmt"
	"io"
	"math"
)

// CheckRange returns an error for a range that is none: that of a caller of
// GetRange which has made a mistake. It is for implementations of Bucket.
func CheckRange(offset, size int64) error {
	if offset < 0 || size <= 0 || offset > math.MaxInt64-size {
		return fmt.Errorf("a range of %d bytes at offset %d is not one", size, offset)
	}
	return nil
}

// RangeReader returns a reader of the first size bytes of r, which returns an
// error that wraps short if r has fewer. It is for implementations of Bucket.
func RangeReader(r io.Reader, size int64, short error) io.Reader {
	return &rangeReader{from: r, size: size, left: size, short: short}
}

type rangeReader struct {
	from       io.Reader
	size, left int64
	short      error
}

func (r *rangeReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err == io.EOF && r.left > 0 { //nolint:errorlint // readers return it as it is
		err = fmt.Errorf("%d of %d bytes were read: %w", r.size-r.left, r.size, r.short)
	}
	return n, err
}
