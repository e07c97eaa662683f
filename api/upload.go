package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// minUpload is how much a client sends within Options.UploadTimeout. A slower one
// would hold a transfer of others.
const minUpload = 64 << 10

// upload is the body of a request, of any size. Whatever reads it gets each error of
// the client, never an early io.EOF.
type upload struct {
	ctx     context.Context //nolint:containedctx // of the request
	body    io.Reader
	control *http.ResponseController
	timeout time.Duration

	left   time.Duration // for the client, until it has sent the missing bytes
	needed int

	mu     sync.Mutex // guards failed: another goroutine reads the body
	failed error      // of the client
}

func (a *API) newUpload(w http.ResponseWriter, r *http.Request) *upload {
	return &upload{
		ctx: r.Context(), body: r.Body, control: http.NewResponseController(w),
		timeout: a.o.UploadTimeout, left: a.o.UploadTimeout, needed: minUpload,
	}
}

// Read counts the time in which it waits for the client, not that in which the
// container is slow. The deadline remains after an error: the server reads a part of
// what is left of a body.
func (u *upload) Read(p []byte) (int, error) {
	begin := time.Now()
	_ = u.control.SetReadDeadline(begin.Add(u.left)) // it fails only in tests without a connection
	var n int
	err := context.Cause(u.ctx) // after the deadline: cutOff sets it when ctx ends
	if err == nil {
		n, err = u.body.Read(p)
	}
	u.left -= time.Since(begin)
	if u.needed -= n; u.needed <= 0 {
		u.left, u.needed = u.timeout, minUpload
	}
	if err == io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		_ = u.control.SetReadDeadline(time.Time{}) // it would end the request
		return n, err
	}
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.failed = err
	}
	return n, err
}

// cutOff has reads of the body end when the request does.
func (u *upload) cutOff() (stop func() bool) {
	return context.AfterFunc(u.ctx, func() { _ = u.control.SetReadDeadline(time.Now()) }) // it fails only in tests without a connection
}

// refused returns the error of a request whose use has failed with err. The client's
// own error comes first.
func (u *upload) refused(ctx context.Context, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed == nil {
		return err
	}
	if cause := credentialEnd(ctx); cause != nil {
		return cause
	}
	if errors.Is(u.failed, os.ErrDeadlineExceeded) {
		return newProblem(ctx, RequestTimeout, "the body was received too slowly")
	}
	p := newProblem(ctx, InvalidRequest, "the body is incomplete")
	p.Status = http.StatusBadRequest
	return p
}
