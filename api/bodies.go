package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/jsonvalue"
)

// Limits of the bodies that are in memory. The limit of one is in its rule.
const (
	// ownBytes is what each credential always has.
	ownBytes = 64 << 10
	// maxSharedByOne bounds what a credential has beyond that, with the tokens that it
	// has made. maxSharedByToken bounds what the tokens for one tenant have of that, so
	// that others have something; the largest body fits. maxShared bounds what all have
	// together: one part of the memory limit in sharedPart, if that is less.
	maxSharedByOne   = 8 << 20
	maxSharedByToken = 6 << 20
	maxShared        = 64 << 20
	sharedPart       = 8
	// bodyStep is how much a body without a length counts at first.
	bodyStep = 64 << 10
	// maxParts bounds the parts of a body that is JSON. The longest command with all its
	// variables has 3,100, and data of 32 KiB at most 16,400. Decoding and validating
	// needs partBytes for each of them at most.
	maxParts  = 20_000
	partBytes = 256
	// bodyTimeout is how long a client may take for the first minUpload bytes of a
	// body, for the next ones, and so on.
	bodyTimeout = 10 * time.Second
)

// bodies counts the bytes of bodies in memory.
type bodies struct {
	max int64 // of shared

	mu     sync.Mutex       // guards what follows
	used   map[string]int64 // by credential
	makers map[string]int64 // what is used beyond ownBytes, by who made the credential
	shared int64            // the same, of all
}

// sharedFor returns how much all bodies have together in a process with a memory limit.
func sharedFor(memory int64) int64 {
	return max(maxSharedByOne, min(maxShared, memory/sharedPart))
}

// add adds bytes of a sender, or removes them: see sendersOf. It returns false, and
// changes nothing, if there are too many.
func (b *bodies) add(senders []string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	maker, credential, limit := senders[0], senders[len(senders)-1], int64(maxSharedByOne)
	if maker != credential {
		limit = maxSharedByToken
	}
	before, after := max(0, b.used[credential]-ownBytes), max(0, b.used[credential]+n-ownBytes)
	change := after - before
	if change > 0 && (after > limit || b.makers[maker]+change > maxSharedByOne || b.shared+change > b.max) {
		return false
	}
	if b.used == nil {
		b.used, b.makers = map[string]int64{}, map[string]int64{}
	}
	b.shared += change
	addTo(b.used, credential, n)
	addTo(b.makers, maker, change)
	return true
}

func addTo(counts map[string]int64, key string, n int64) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

// body is the body of a request in memory.
type body struct {
	of      *bodies
	senders []string // see sendersOf
	counted int64
	content *bytes.Reader
}

// count sets the bytes that the body counts. It returns false, and changes nothing, if
// there are too many. Fewer are never too many.
func (b *body) count(n int64) bool {
	if n == b.counted {
		return true
	}
	if !b.of.add(b.senders, n-b.counted) {
		return false
	}
	b.counted = n
	return true
}

type bodyKey struct{}

// decoded is called when the body of a request was decoded: what that took, and the
// text itself, are needed no longer.
func decoded(ctx context.Context) {
	if b, ok := ctx.Value(bodyKey{}).(*body); ok && b.content != nil {
		b.count(b.content.Size())
		b.content.Reset(nil)
	}
}

// bodyForm is what a handler takes of a body.
type bodyForm int

const (
	noBody   bodyForm = iota // nothing: what is sent is discarded
	rawBody                  // the bytes
	jsonBody                 // what they are as JSON
)

// formOf returns what a handler with an input of type I takes.
func formOf[I any]() bodyForm {
	for name, form := range map[string]bodyForm{"Body": jsonBody, "RawBody": rawBody} {
		if _, ok := reflect.TypeFor[I]().FieldByName(name); ok {
			return form
		}
	}
	return noBody
}

// errTooManyBodies indicates that a body does not fit with the others.
var errTooManyBodies = errors.New("the bodies of requests in progress are too large together")

// readBody reads the whole body of a request that is permitted, within bounds of
// size, memory and time, so that no handler has to distinguish a slow client from a
// broken one. It counts until the request has been answered.
func (a *API) readBody(rec *recorder, r *http.Request, rule rule) (b *body, refused *Problem) {
	ctx := r.Context()
	b = &body{of: &a.bodies}
	p := auth.From(ctx)
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return b, refuseEnded(r)
	case p == nil: // a public path takes none
		rec.endBody()
		r.Body = http.NoBody
		return b, nil
	case rule.body == streamed:
		// Until the handler reads it, with deadlines of its own. Tests have no
		// connection, and so no deadline; nothing else fails here.
		_ = rec.control.SetReadDeadline(time.Now().Add(a.o.UploadTimeout))
		return b, refuseEnded(r)
	}
	limit := cmp.Or(rule.body, defaultBody)
	if r.ContentLength > limit {
		return b, tooLarge(r, limit)
	}
	b.senders = sendersOf(p.Actor)
	content, err := a.readWhole(rec, r, limit, rule.form, b)
	if err == nil && rule.form == jsonBody {
		_, parts := jsonvalue.Measure(content)
		if parts > maxParts {
			return b, newProblem(ctx, PayloadTooLarge, fmt.Sprintf("the body has %d JSON values and names, more than %d", parts, maxParts))
		}
		if !b.count(b.counted + int64(parts)*partBytes) {
			err = errTooManyBodies
		}
	}
	if err == nil {
		b.content = bytes.NewReader(content)
		r.Body = io.NopCloser(b.content)
		return b, refuseEnded(r)
	}
	if errors.Is(err, errTooManyBodies) {
		refused = newProblem(ctx, TooManyRequests, err.Error()+": send fewer at once, each with a Content-Length")
		refused.retry = defaultRetryAfter
		return b, refused
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return b, tooLarge(r, limit)
	}
	return b, a.problem(ctx, err)
}

// readWhole reads the body of a request, at a minimum rate, until its credential ends.
func (a *API) readWhole(rec *recorder, r *http.Request, limit int64, form bodyForm, b *body) (content []byte, err error) {
	u := a.newUpload(rec, r)
	u.timeout, u.left = bodyTimeout, bodyTimeout
	u.body = http.MaxBytesReader(rec.ResponseWriter, r.Body, limit)
	stop := u.cutOff()
	if form == noBody {
		_, err = io.Copy(io.Discard, u)
	} else {
		content, err = b.read(u, r.ContentLength, limit)
	}
	if stop(); err == nil {
		_ = rec.control.SetReadDeadline(time.Time{})
		return content, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, errTooManyBodies) {
		return nil, err
	}
	return nil, u.refused(r.Context(), err)
}

// read reads content of a length into memory, which counts at once. Content without a
// length, which is negative then, counts at most twice what has arrived.
func (b *body) read(from io.Reader, length, limit int64) (content []byte, err error) {
	size := length
	if length < 0 {
		size = bodyStep
	}
	for err == nil && int64(len(content)) != length {
		if len(content) == cap(content) {
			if !b.count(size) {
				return nil, errTooManyBodies
			}
			content = append(make([]byte, 0, size), content...)
			size = min(2*size, limit+1) // one more, so that its end is noticed
		}
		var n int
		n, err = from.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
	}
	if err == io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		err = nil
	}
	return content, err
}

func tooLarge(r *http.Request, limit int64) *Problem {
	return newProblem(r.Context(), PayloadTooLarge, fmt.Sprintf("the body is larger than %d KiB", limit>>10))
}
