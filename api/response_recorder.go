package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// recorder forwards a response, and records what the access log needs. Every
// write has its own deadline: a client that does not read is disconnected,
// however long the whole response may take.
type recorder struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	// lastTimeout is that of all that is left to write when the credential has ended.
	lastTimeout time.Duration

	status  int
	written int64
	failed  error  // of the first write that failed
	path    string // in the access log; empty for that of the request

	mu   sync.Mutex // guards last, and the write deadline
	last time.Time  // of all writes; zero: there is no such time
}

// maxWriteSize is how much a client must read within the deadline of one write.
const maxWriteSize = 64 << 10

// Unwrap lets http.ResponseController reach the connection.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader sends the first status and ignores later ones.
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

// bodyEndTimeout bounds how long a client is waited for that sends a body which is
// not read to its end: what follows it is no request.
const bodyEndTimeout = 2 * time.Second

// endBody has the server wait no longer for the rest of a body.
func (rec *recorder) endBody() {
	_ = rec.control.SetReadDeadline(time.Now().Add(bodyEndTimeout)) // it fails only in tests without a connection
}

// refuse answers a request whose body is not read.
func (rec *recorder) refuse(p *Problem) {
	rec.endBody()
	p.write(rec)
}

// deadline sets the write deadline. It fails only in tests without a
// connection.
func (rec *recorder) deadline() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	at := time.Now().Add(rec.timeout)
	if !rec.last.IsZero() && rec.last.Before(at) {
		at = rec.last
	}
	_ = rec.control.SetWriteDeadline(at)
}

// endWrites has no write end later than in a time from here on.
func (rec *recorder) endWrites(in time.Duration) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.last = time.Now().Add(in)
	_ = rec.control.SetWriteDeadline(rec.last)
}

// abort aborts a response whose status is already sent, so that the client does
// not treat it as complete.
func abort(ctx context.Context, log *slog.Logger, doing string, err error) {
	log.WarnContext(ctx, "response aborted", "request", requestID(ctx), "step", doing, "error", err)
	panic(http.ErrAbortHandler)
}
