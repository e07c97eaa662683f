package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// recorder passes an answer on, and remembers what the log wants to know of
// it. Every write has a deadline of its own: a client that does not read is cut
// off, however long the answer as a whole may take.
type recorder struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	status  int
	written int64
	failed  error // of the first write that did not work
}

// maxWriteSize is how much a client must take within the deadline of one write.
const maxWriteSize = 64 << 10

// Unwrap lets http.ResponseController reach the connection.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader sends the status once; a second one is lost.
func (rec *recorder) WriteHeader(status int) {
	if rec.status != 0 {
		return
	}
	rec.status = status
	rec.deadline()
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	total := 0
	for part := range slices.Chunk(b, maxWriteSize) {
		rec.deadline()
		n, err := rec.ResponseWriter.Write(part)
		total += n
		rec.written += int64(n)
		if err != nil {
			if rec.failed == nil {
				rec.failed = err
			}
			return total, err
		}
	}
	return total, nil
}

// FlushError sends what is buffered.
func (rec *recorder) FlushError() error {
	rec.deadline()
	err := rec.control.Flush()
	if err != nil && rec.failed == nil {
		rec.failed = err
	}
	return err
}

// deadline is not there in tests without a connection, and never fails with
// one.
func (rec *recorder) deadline() {
	_ = rec.control.SetWriteDeadline(time.Now().Add(rec.timeout))
}

// abort breaks an answer off whose status is sent, so that the client does not
// take a part for the whole.
func abort(ctx context.Context, log *slog.Logger, doing string, err error) {
	log.WarnContext(ctx, "answer broken off", "request", requestID(ctx), "step", doing, "error", err)
	panic(http.ErrAbortHandler)
}
