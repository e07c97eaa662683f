package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The limits of what the processes of a container ask.
const (
	// maxOpenWaits bounds the requests without an answer that may take long, and
	// maxOpenOthers the others. Together they are fewer than a server allows.
	maxOpenWaits  = 16
	maxOpenOthers = 8
	// serverWait is how long a request waits for a session with a server.
	serverWait = 10 * time.Second
	// maxServers bounds the sessions that are kept for requests.
	maxServers = 4
)

// longAsks are the names of requests that may take long.
var longAsks = map[string]bool{"wait": true}

// asks sends what processes of the container ask to a server.
type asks struct {
	admitted *atomic.Int64 // the greatest fence of any request of a server
	rate     *shim.Bucket

	// mu guards the fields below.
	mu       sync.Mutex
	claim    served             // the current claim
	commands map[string]*served // commands of a claim that is not active, by ID
	changed  chan struct{}      // closed when any servers change
	open     *openAsks          // since the processes of the container were ended last
}

// served is what servers serve: the claim for all processes of the container, or a
// command for its own. It is guarded by asks.mu.
type served struct {
	fence   int64        // shim.NoFence before the first server, and after the command
	servers []*shim.Conn // with that fence, the last to announce itself last
}

// begun is a request that was counted.
type begun struct {
	by    *served
	fence int64  // with which it is sent: that which by had then
	end   func() // must be called
}

// openAsks counts requests without an answer. It is guarded by asks.mu.
type openAsks struct{ waits, others int }

// counter returns the counter of requests of that name, and its limit.
func (o *openAsks) counter(name string) (count *int, limit int) {
	if longAsks[name] {
		return &o.waits, maxOpenWaits
	}
	return &o.others, maxOpenOthers
}

func newAsks(admitted *atomic.Int64) *asks {
	return &asks{
		admitted: admitted, rate: shim.NewBucket(shim.ProgramRate), commands: make(map[string]*served),
		changed: make(chan struct{}), open: new(openAsks),
	}
}

// serve records that a server serves the requests of the claim with this fence.
func (a *asks) serve(c *shim.Conn, fence int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(&a.claim, c, fence)
}

// serveCommand records that a server serves the requests of the processes of a
// command with this fence, unless the command is over.
func (a *asks) serveCommand(r *run, c *shim.Conn, fence int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.isOver {
		return
	}
	if a.commands[r.id] == nil {
		a.commands[r.id] = new(served)
	}
	a.add(a.commands[r.id], c, fence)
}

// endCommand records that a command is over: nothing more is sent for it.
func (a *asks) endCommand(r *run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.isOver = true
	if by, ok := a.commands[r.id]; ok {
		by.fence = shim.NoFence
		delete(a.commands, r.id)
		a.notifyChanged()
	}
}

// add adds a session to those that serve. The caller holds mu.
func (a *asks) add(by *served, c *shim.Conn, fence int64) {
	a.rate.Begin(fence)
	kept := by.servers[:0:0]
	for _, other := range by.servers {
		if fence == by.fence && other != c && other.Err() == nil {
			kept = append(kept, other)
		}
	}
	by.fence = fence
	by.servers = append(kept, c)[max(0, len(kept)+1-maxServers):]
	a.notifyChanged()
}

// notifyChanged has waiting requests look for a session again. The caller holds mu.
func (a *asks) notifyChanged() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// servedFor returns what a request belongs to. The caller holds mu.
func (a *asks) servedFor(ask *shim.Ask) *served {
	if by, ok := a.commands[ask.RunID]; ok && ask.FromHook {
		return by
	}
	return &a.claim
}

// handleServe records that the server at the other end serves requests. Its fence
// is one of the claim: it must be the greatest that this container has.
func (c *session) handleServe(in *shim.Incoming) error {
	fence := in.Request.Fence
	if fence <= shim.NoFence {
		return errInvalidRequest
	}
	err := c.supervisor.admit(fence)
	if err == nil {
		c.supervisor.asks.serve(c.conn, fence)
	}
	go respond(in, shim.Response{}, err) // ends with the write, which has a timeout
	return nil
}

// begin counts a request, which is sent with the fence of the claim that the
// container has now. A request that is not sent gets the answer.
func (a *asks) begin(ask *shim.Ask) (b begun, refused *shim.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	refuse := func(code runtime.ProblemCode, detail string) (begun, *shim.Answer) {
		answer := shim.Refuse(code, detail)
		return begun{}, &answer
	}
	by := a.servedFor(ask)
	count, limit := a.open.counter(ask.Name)
	switch {
	case ask.Invalid() != "":
		return refuse(runtime.ProblemInvalid, "the request is invalid: "+ask.Invalid())
	case by.fence == shim.NoFence || by.fence != a.admitted.Load():
		return refuse(runtime.ProblemNoClaim, "the container has no active claim")
	// What is not sent does not count: it must not delay the hooks that may ask while
	// others may not. How often processes connect is bounded by askAcceptRate.
	case !a.rate.Take(time.Now()):
		return refuse(runtime.ProblemBusy, "the container has sent too many requests")
	case *count >= limit:
		return refuse(runtime.ProblemBusy, "too many requests of the container are in progress")
	}
	*count++
	return begun{by: by, fence: by.fence, end: func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		*count--
	}}, nil
}

// reset forgets the requests without an answer: the processes that sent them have
// ended. Their number still counts, as it does for the server.
func (a *asks) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = new(openAsks)
}

// send sends a request with its fence to a server and waits for the answer.
func (a *asks) send(ask *shim.Ask, b begun) shim.Answer {
	conn := a.waitServer(b)
	if conn == nil {
		return shim.Refuse(runtime.ProblemUnavailable, "no server can be reached")
	}
	out, err := conn.Call(shim.Request{Op: shim.OpAsk, Ask: ask, Fence: b.fence})
	if err != nil {
		return shim.Refuse(runtime.ProblemUnavailable, "the connection to the server was lost")
	}
	defer out.Abandon()
	answer, err := out.Answer(shim.AskTimeout)
	switch {
	case err == nil:
		return answer
	case errors.Is(err, shim.ErrNoAnswer):
		_ = conn.Close() // such a server serves no one
	}
	return shim.Refuse(runtime.ProblemUnavailable, "the connection to the server was lost")
}

// waitServer returns an open session for a request, or nil if there is none in
// time.
func (a *asks) waitServer(b begun) *shim.Conn {
	timeout := time.NewTimer(serverWait)
	defer timeout.Stop()
	for {
		conn, changed := a.server(b)
		if conn != nil || changed == nil {
			return conn
		}
		select {
		case <-changed:
		case <-timeout.C:
			return nil
		}
	}
}

// server returns the last session for requests that is open, or a channel that is
// closed when there may be one; neither if the claim or the command has ended.
func (a *asks) server(b begun) (*shim.Conn, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.fence != b.by.fence {
		return nil, nil
	}
	for i := len(b.by.servers) - 1; i >= 0; i-- {
		if b.by.servers[i].Err() == nil {
			return b.by.servers[i], nil
		}
	}
	return nil, a.changed
}
