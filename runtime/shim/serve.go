package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

const (
	// serveInterval is how often a server confirms that it serves a container's
	// requests: only traffic shows that a connection is lost.
	serveInterval = time.Minute
	// serveTimeout bounds that.
	serveTimeout = 30 * time.Second
	// handlerTimeout bounds how long a handler may take to respond. One that
	// needs longer has the program ask again.
	handlerTimeout = 30 * time.Second
)

// AskTimeout is how long the program waits for an answer.
const AskTimeout = handlerTimeout + 15*time.Second

// askServer serves the requests of a container, or those of the processes of one
// command, until its context ends.
type askServer struct {
	fence   int64
	ctx     context.Context //nolint:containedctx // of the call of ServeRequests or Exec that it belongs to
	handle  runtime.RequestHandler
	running sync.WaitGroup

	// mu guards the fields below.
	mu       sync.Mutex
	handlers int  // that are running
	ended    bool // no handler begins any more
}

// newAskServer returns an askServer, and a function that ends it: when that has
// returned, no handler is running, and none begins.
func newAskServer(ctx context.Context, fence int64, handle runtime.RequestHandler) (a *askServer, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	a = &askServer{fence: fence, ctx: ctx, handle: handle}
	return a, func() {
		a.mu.Lock()
		a.ended = true
		a.mu.Unlock()
		cancel()
		a.running.Wait()
	}
}

// serveCommand serves the requests of the processes of a command until the returned
// function is called. Without a handler it does nothing.
func (s *Session) serveCommand(ctx context.Context, runID string, fence int64, handle runtime.RequestHandler) (end func()) {
	if handle == nil {
		return func() {}
	}
	s.asked.Begin(fence)
	a, stop := newAskServer(ctx, fence, handle)
	s.servers.add(runID, a)
	return func() { s.servers.remove(runID, a); stop() }
}

// serverOf returns what serves a request, or nil.
func (s *Session) serverOf(ask *Ask) *askServer {
	if a := s.servers.of(ask.RunID); a != nil && ask.FromHook {
		return a
	}
	return s.servers.of(ofContainer)
}

// askServers are those of a session, by the run that they serve, in the order of
// their fences. One of an older flow neither replaces one of a later flow nor
// ends it. Its methods may be called by multiple goroutines.
type askServers struct {
	mu    sync.Mutex // guards byRun
	byRun map[string][]*askServer
}

// ofContainer is in the place of a run for what serves the container. A run has an
// ID.
const ofContainer = ""

func (l *askServers) add(run string, a *askServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRun == nil {
		l.byRun = map[string][]*askServer{}
	}
	all := append(l.byRun[run], a)
	slices.SortStableFunc(all, func(a, b *askServer) int { return cmp.Compare(a.fence, b.fence) })
	l.byRun[run] = all
}

func (l *askServers) remove(run string, a *askServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.DeleteFunc(l.byRun[run], func(other *askServer) bool { return other == a })
	if l.byRun[run] = all; len(all) == 0 {
		delete(l.byRun, run)
	}
}

// of returns the one of the latest flow, or nil.
func (l *askServers) of(run string) *askServer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := l.byRun[run]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// ServeRequests implements runtime.Requester.
func (s *Session) ServeRequests(ctx context.Context, fence int64, handle runtime.RequestHandler) error {
	a, end := newAskServer(ctx, fence, handle)
	defer end()
	s.asked.Begin(fence)
	s.servers.add(ofContainer, a) // a request may follow the announcement at once
	defer s.servers.remove(ofContainer, a)
	for {
		c, err := s.announce(ctx, fence)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.closed:
			return fmt.Errorf("%w: serve requests: %w", runtime.ErrUnavailable, errConnLost)
		case <-time.After(serveInterval):
		}
	}
}

// announce sends the program the fence of its claim. A connection that does not
// carry that is closed. What fails here does not count against the container,
// which no flow needs now: it may hold the last copy of a tenant's state.
func (s *Session) announce(ctx context.Context, fence int64) (*sessionConn, error) {
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	c, err := s.connectWith(ctx, func(_ context.Context, _ time.Time, err error) error { return err })
	if err != nil {
		return nil, err
	}
	if c.version < RequestsVersion {
		return nil, runtime.ErrUnsupported
	}
	silent := fmt.Errorf("%w: no answer within %s", runtime.ErrUnavailable, serveTimeout)
	callCtx, cancel := context.WithTimeoutCause(ctx, serveTimeout, silent)
	defer cancel()
	_, err = roundTrip(callCtx, c, Request{Op: OpServe, Fence: fence})
	if errors.Is(err, silent) {
		c.fail(errConnLost)
	}
	if errors.Is(err, errConnLost) {
		err = fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
	}
	return c, err
}

// handleAsk starts the handler of a request of the container. The program is
// possibly under control of the tenant: what an intact one would not send ends
// the connection, before it costs more than to read it.
func (s *Session) handleAsk(in *Incoming) error {
	r := in.Request
	switch {
	case in.OneWay() || r.Op != OpAsk || r.Streams != 0 || r.Run != nil:
		return protocolError("a request that no program sends")
	case r.Command != nil || len(r.Paths)+len(r.Environment) > 0: // more memory than on the wire
		return protocolError("a request with what no program sends")
	case r.Ask.Invalid() != "":
		return protocolError("a request of a container: %s", r.Ask.Invalid())
	case !s.asked.Take(time.Now()):
		return protocolError("more than %g requests a second", serverRate.PerSecond)
	}
	if refused := s.serverOf(r.Ask).start(in); refused != nil {
		// The goroutine ends with the write, which has a timeout. The limit of open
		// requests bounds the number of goroutines.
		go func() { _ = in.Respond(Response{Answer: refused}) }()
	}
	return nil
}

// start starts the handler. It returns the answer if it does not: nothing serves
// the container any more, or too many handlers are running. The receiver may be nil.
func (a *askServer) start(in *Incoming) (refused *Answer) {
	unserved := Refuse(runtime.ProblemUnavailable, "this server does not serve the container")
	if a == nil {
		return &unserved
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended: // since the request was received
		return &unserved
	case a.handlers >= runtime.MaxRequests:
		busy := Refuse(runtime.ProblemBusy, "too many requests of the container are in progress")
		return &busy
	}
	a.handlers++
	a.running.Go(func() { // ends with the handler
		defer a.leave()
		a.run(in)
	})
	return nil
}

// leave records that a handler has returned.
func (a *askServer) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handlers--
}

// run calls the handler. Its context ends with the connection, with the call of
// ServeRequests, and when it has not responded in time. What the handler does
// after it has responded is bounded by the call only.
func (a *askServer) run(in *Incoming) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(handlerTimeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends with the handler
		select {
		case <-in.Closed():
			cancel(errConnLost)
		case <-stop:
		}
	}()
	ask := in.Request.Ask
	a.handle(ctx, runtime.Request{
		ID: ask.ID, Name: ask.Name, Body: ask.Body, Fence: in.Request.Fence, FromHook: ask.FromHook, RunID: ask.RunID,
	}, func(r runtime.Response) {
		timer.Stop()
		_ = in.Respond(Response{Answer: limitAnswer(r)}) // if it is lost, the program asks again
	})
	_ = in.Respond(Response{Answer: &Answer{Problem: &runtime.Problem{
		Code: runtime.ProblemFailed, Detail: "the server did not answer"}}}) // unless it has
}

// ErrNoAnswer means that a server has not answered in time.
var ErrNoAnswer = errors.New("no answer of the server")

// Answer waits for the answer to a request with OpAsk. It returns ErrNoAnswer if
// there is none in time, and another error if the connection is lost.
func (o Outgoing) Answer(timeout time.Duration) (Answer, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case ev := <-o.events:
		if ev.response == nil || ev.response.Answer == nil {
			return Answer{}, fmt.Errorf("%w: a response without an answer", ErrProtocol)
		}
		return *ev.response.Answer, nil
	case <-o.conn.closed:
		return Answer{}, errConnLost
	case <-timer.C:
		return Answer{}, ErrNoAnswer
	}
}

// limitAnswer returns a response as sent.
func limitAnswer(r runtime.Response) *Answer {
	answer := Answer{Body: r.Body, Problem: r.Problem}
	if len(r.Body) > runtime.MaxRequestBody {
		answer = Refuse(runtime.ProblemFailed, fmt.Sprintf("the response has %d bytes, at most %d are allowed", len(r.Body), runtime.MaxRequestBody))
	}
	if p := answer.Problem; p != nil && len(p.Detail) > maxProblemDetail {
		answer.Problem = &runtime.Problem{Code: p.Code, Detail: strings.ToValidUTF8(p.Detail[:maxProblemDetail], "")}
	}
	return &answer
}

// maxProblemDetail bounds the detail of a problem, in bytes.
const maxProblemDetail = 2 << 10
