package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// lastWriteTimeout is how long a client may take for what is left to write when its
// credential has ended.
const lastWriteTimeout = time.Second

// LogEnded is the type of the last line of a stream whose credential was revoked or
// has expired.
const LogEnded activity.Type = "log.ended"

// credentialEnd returns why a request ends whose credential is not accepted any
// more, else nil.
func credentialEnd(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, auth.ErrRevoked) || errors.Is(cause, auth.ErrExpired) {
		return cause
	}
	return nil
}

// cutOff has writes end soon when the credential of a request does: a client that
// does not read would keep what it has until the write's own deadline.
func cutOff(ctx context.Context, w http.ResponseWriter) (stop func() bool) {
	control := http.NewResponseController(w)
	return context.AfterFunc(ctx, func() {
		if credentialEnd(ctx) != nil {
			_ = control.SetWriteDeadline(time.Now().Add(lastWriteTimeout)) // it fails only in tests without a connection
		}
	})
}

// untilEnd reads until the context ends.
type untilEnd struct {
	ctx context.Context //nolint:containedctx // of the request
	io.Reader
}

func (r untilEnd) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
