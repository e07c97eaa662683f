package api

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

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

// cutOff has all writes end soon when the credential of a request does: a client that
// reads slowly, or not at all, would get what is left for as long as each part of it
// may take.
func (rec *recorder) cutOff(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if credentialEnd(ctx) != nil {
			rec.endWrites(rec.lastTimeout)
		}
	})
}

// refuseEnded refuses a request whose credential has ended while its body was
// received. Not all work ends with the request's context.
func refuseEnded(r *http.Request) *Problem {
	if cause := credentialEnd(r.Context()); cause != nil {
		return newProblem(r.Context(), Unauthorized, cause.Error())
	}
	return nil
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
