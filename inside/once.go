package inside

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// What is kept of requests that must not be done twice.
const (
	maxOnce     = 64              // of a claim, and those in progress, which are few
	onceTimeout = 2 * time.Minute // longer than a program asks for
)

// once does each request of a claim once on this server: a program that has lost
// the answer sends it again. The database recognises a repeated request as well, of
// any server; here it is recognised before the limits count it a second time, and
// while the first one is in progress.
type once struct {
	// mu guards claims.
	mu     sync.Mutex
	claims map[string][]*attempt // the oldest first
}

// attempt is a request that is done, or was.
type attempt struct {
	request  string
	content  [sha256.Size]byte
	begun    time.Time
	done     chan struct{} // closed when response is set
	response runtime.Response
	failed   bool // it was interrupted: it may be done again
}

// contentOf returns what identifies what a request asks for: its name and its body,
// however that is formatted.
func contentOf(r runtime.Request) [sha256.Size]byte {
	content := r.Body
	if body := (bytes.Buffer{}); json.Compact(&body, r.Body) == nil {
		content = body.Bytes()
	}
	return sha256.Sum256(append([]byte(r.Name+"\x00"), content...)) // a name has no NUL
}

// do returns the response to a request, which is do's if it is new. One with the ID
// of another request is refused: the response to that is none to it.
func (o *once) do(ctx context.Context, c Caller, content [sha256.Size]byte, do func() runtime.Response) runtime.Response {
	a, isNew := o.begin(c, content)
	if a.content != content {
		return problem(runtime.ProblemInvalid, "its ID is that of another request")
	}
	if !isNew {
		select {
		case <-a.done:
			return a.response
		case <-ctx.Done():
			return problem(runtime.ProblemUnavailable, "the request is in progress")
		}
	}
	a.response = problem(runtime.ProblemFailed, "the request failed") // if do panics
	defer func() {
		p := a.response.Problem
		o.mu.Lock()
		a.failed = p != nil && (p.Code == runtime.ProblemUnavailable || p.Code == runtime.ProblemPending)
		o.mu.Unlock()
		close(a.done)
	}()
	a.response = do()
	return a.response
}

// begin returns the attempt of a request, and whether the caller has to do it.
func (o *once) begin(c Caller, content [sha256.Size]byte) (a *attempt, isNew bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	kept := o.claims[c.Claim][:0:0]
	for _, other := range o.claims[c.Claim] {
		if other.failed || now.Sub(other.begun) > onceTimeout {
			continue
		}
		if other.request == c.Request {
			a = other
		}
		kept = append(kept, other)
	}
	if isNew = a == nil; isNew {
		a = &attempt{request: c.Request, content: content, begun: now, done: make(chan struct{})}
		kept = append(kept, a)
	}
	if o.claims == nil {
		o.claims = make(map[string][]*attempt)
	}
	if i := slices.IndexFunc(kept, (*attempt).isDone); i >= 0 && len(kept) > maxOnce {
		kept = slices.Delete(kept, i, i+1)
	}
	o.claims[c.Claim] = kept
	return a, isNew
}

// isDone reports whether the response is set.
func (a *attempt) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// forget drops what is kept of a claim that has ended.
func (o *once) forget(claim string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.claims, claim)
}
