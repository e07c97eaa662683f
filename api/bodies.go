package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hostler/hostler/auth"
)

// Limits of the bodies that are in memory. The limit of one is in its rule.
const (
	// ownBytes is what each credential always has.
	ownBytes = 64 << 10
	// maxSharedByOne bounds what a credential has beyond that, and maxShared what all
	// have together.
	maxSharedByOne = 8 << 20
	maxShared      = 64 << 20
	// bodyTimeout is how long a client may take for the first minUpload bytes of a
	// body, for the next ones, and so on.
	bodyTimeout = 10 * time.Second
)

// bodies counts the bytes of bodies in memory.
type bodies struct {
	mu     sync.Mutex       // guards what follows
	used   map[string]int64 // by the actor of a credential
	shared int64            // what is used beyond ownBytes, of all
}

// add adds bytes of a credential, or removes them. It returns false, and changes
// nothing, if there are too many.
func (b *bodies) add(actor string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, after := max(0, b.used[actor]-ownBytes), max(0, b.used[actor]+n-ownBytes)
	if shared := b.shared + after - before; after > before && (after > maxSharedByOne || shared > maxShared) {
		return false
	}
	if b.used == nil {
		b.used = map[string]int64{}
	}
	b.shared += after - before
	if b.used[actor] += n; b.used[actor] == 0 {
		delete(b.used, actor)
	}
	return true
}

// readBody reads the whole body of a request that is permitted, within bounds of
// size, memory and time, so that no handler has to distinguish a slow client from a
// broken one. The body counts until release is called.
func (a *API) readBody(rec *recorder, r *http.Request, rule rule) (release func(), refused *Problem) {
	release = func() {}
	ctx := r.Context()
	p := auth.From(ctx)
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return release, refuseEnded(r)
	case p == nil: // a public path takes none
		rec.endBody()
		r.Body = http.NoBody
		return release, nil
	case rule.body == streamed:
		// Until the handler reads it, with deadlines of its own. Tests have no
		// connection, and so no deadline; nothing else fails here.
		_ = rec.control.SetReadDeadline(time.Now().Add(a.o.UploadTimeout))
		return release, refuseEnded(r)
	}
	limit := rule.body
	if limit == 0 {
		limit = defaultBody
	}
	if r.ContentLength > limit {
		return release, tooLarge(r, limit)
	}
	n := r.ContentLength
	if n < 0 { // it has an end, and no length
		n = limit
	}
	if !a.bodies.add(p.Actor, n) {
		refused = newProblem(ctx, TooManyRequests, "the bodies of requests in progress are too large together: send fewer at once, each with a Content-Length")
		refused.retry = defaultRetryAfter
		return release, refused
	}
	release = func() { a.bodies.add(p.Actor, -n) }
	body, err := a.readWhole(rec, r, limit)
	if err == nil {
		a.bodies.add(p.Actor, int64(len(body))-n) // it is never more
		n = int64(len(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		return release, refuseEnded(r)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return release, tooLarge(r, limit)
	}
	return release, a.problem(ctx, err)
}

// readWhole reads the body of a request, at a minimum rate, until its credential ends.
func (a *API) readWhole(rec *recorder, r *http.Request, limit int64) ([]byte, error) {
	u := a.newUpload(rec, r)
	u.timeout, u.left = bodyTimeout, bodyTimeout
	u.body = http.MaxBytesReader(rec.ResponseWriter, r.Body, limit)
	stop := u.cutOff()
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(u, body)
	} else {
		body, err = io.ReadAll(u)
	}
	if stop(); err == nil {
		_ = rec.control.SetReadDeadline(time.Time{})
		return body, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, err
	}
	return nil, u.refused(r.Context(), err)
}

func tooLarge(r *http.Request, limit int64) *Problem {
	return newProblem(r.Context(), PayloadTooLarge, fmt.Sprintf("the body is larger than %d KiB", limit>>10))
}
