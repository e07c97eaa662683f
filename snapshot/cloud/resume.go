package cloud

import (
	"context"
	"errors"
	"io"
	"net"
)

// maxResumes bounds how often the rest of one range is asked for again.
const maxResumes = 3

// resumedReader reads a range, and asks for the rest of it when the connection ends
// early. It is used by one goroutine.
type resumedReader struct {
	ctx          context.Context //nolint:containedctx // of the one call that reads it
	open         func(offset, size int64) (io.ReadCloser, error)
	from         io.ReadCloser
	offset, left int64 // of what has not come
	resumed      int
}

func (r *resumedReader) Read(p []byte) (int, error) {
	for {
		n, err := r.from.Read(p)
		r.offset += int64(n)
		r.left -= int64(n)
		if err == nil || r.left <= 0 || r.resumed == maxResumes || r.ctx.Err() != nil || !isCut(err) {
			return n, err
		}
		r.resumed++
		next, failed := r.open(r.offset, r.left)
		if failed != nil {
			return n, errors.Join(err, failed)
		}
		_ = r.from.Close() // it has failed
		r.from = next
		if n > 0 {
			return n, nil
		}
	}
}

// isCut reports whether an error is that of a connection. Any other is the service's
// answer, or that of the object, and would come again.
func isCut(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.Is(err, errCut)
}

// Close closes the last answer.
func (r *resumedReader) Close() error { return r.from.Close() }
