package fake

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// askPath is where every container has the program that sends requests.
const askPath = "/.hostler/bin/hostler"

// requestServer is a call of ServeRequests.
type requestServer struct {
	fence   int64
	asked   chan ask
	stopped <-chan struct{}
}

// ask is a request of a process.
type ask struct {
	runtime.Request
	answer chan<- runtime.Response // has room for one
}

// requestsVersion is the protocol version from which on a container sends
// requests.
const requestsVersion = 2

// ServeRequests serves the requests of processes until ctx ends or the container
// exits.
func (rt *Runtime) ServeRequests(ctx context.Context, id string, fence int64, handle runtime.RequestHandler) error {
	return rt.do(ctx, Call{Op: "serve", ID: id}, func(c *container) error {
		s, lost, err := c.addServer(ctx, fence)
		if err != nil {
			return err
		}
		defer c.removeServer(s)
		return s.run(ctx, lost, handle)
	})
}

func (c *container) addServer(ctx context.Context, fence int64) (s *requestServer, lost <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program < requestsVersion {
		return nil, nil, runtime.ErrUnsupported
	}
	if c.state != runtime.Running {
		return nil, nil, runtime.ErrNotRunning
	}
	if err := c.checkFence(fence); err != nil {
		return nil, nil, err
	}
	if c.lost == nil {
		c.lost = make(chan struct{})
	}
	c.server = &requestServer{fence: fence, asked: make(chan ask), stopped: ctx.Done()}
	return c.server, c.lost, nil
}

func (c *container) removeServer(s *requestServer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == s {
		c.server = nil
	}
}

// loseServers ends the calls that serve the container. The caller holds the lock.
func (c *container) loseServers() {
	if c.lost != nil {
		close(c.lost)
	}
	c.lost, c.server = nil, nil
}

// LoseServers ends the calls of ServeRequests for a container, as a lost
// connection does.
func (rt *Runtime) LoseServers(id string) {
	c, err := rt.lookup(id)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loseServers()
}

// run calls the handler for each request, and returns when no handler is running.
func (s *requestServer) run(ctx context.Context, lost <-chan struct{}, handle runtime.RequestHandler) error {
	ctx, cancel := context.WithCancel(ctx)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-lost:
			return fmt.Errorf("%w: the connection was lost", runtime.ErrUnavailable)
		case a := <-s.asked:
			handlers.Add(1)
			go func() { // ends with the handler, which the call waits for
				defer handlers.Done()
				handle(ctx, a.Request, func(r runtime.Response) {
					select {
					case a.answer <- r:
					default: // only the first response counts
					}
				})
			}()
		}
	}
}

// serveCommand serves the requests of the processes of a command until the returned
// function is called. A call of an earlier flow serves none.
func (c *container) serveCommand(ctx context.Context, cmd runtime.Command) (end func()) {
	if cmd.Requests == nil || c.program < requestsVersion || c.admitCopy(cmd.Fence) != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &requestServer{fence: cmd.Fence, asked: make(chan ask), stopped: ctx.Done()}
	c.mu.Lock()
	c.commands[cmd.RunID] = s
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() { // ends when end is called
		defer close(ended)
		_ = s.run(ctx, nil, cmd.Requests) // that the context has ended
	}()
	return func() {
		c.mu.Lock()
		if c.commands[cmd.RunID] == s {
			delete(c.commands, cmd.RunID)
		}
		c.mu.Unlock()
		cancel()
		<-ended
	}
}

// Ask sends a request of a process and returns the response. ctx is that of the
// process's program.
func (p *Proc) Ask(ctx context.Context, id, name, body string) runtime.Response {
	r := runtime.Request{ID: id, Name: name, Body: []byte(body), FromHook: p.run != nil && p.run.tenant == nil}
	if r.FromHook {
		r.RunID = p.run.id
	}
	return p.c.ask(ctx, r)
}

// Ask sends a request of a container's main process and returns the response.
func (rt *Runtime) Ask(ctx context.Context, id string, r runtime.Request) runtime.Response {
	c, err := rt.lookup(id)
	if err != nil {
		return problem(runtime.ProblemUnavailable)
	}
	return c.ask(ctx, r)
}

func (c *container) ask(ctx context.Context, r runtime.Request) runtime.Response {
	c.mu.Lock()
	s, lost, current := c.server, c.lost, c.fence
	if command, ok := c.commands[r.RunID]; ok && r.FromHook {
		s, lost = command, nil
	}
	c.mu.Unlock()
	switch {
	case len(r.Body) > runtime.MaxRequestBody || !runtime.IsRequestName(r.Name) || !runtime.IsRequestID(r.ID):
		return problem(runtime.ProblemInvalid)
	case s == nil || s.fence != current:
		return problem(runtime.ProblemNoClaim)
	}
	r.Fence = s.fence
	answer := make(chan runtime.Response, 1)
	select {
	case s.asked <- ask{r, answer}:
	case <-s.stopped:
		return problem(runtime.ProblemUnavailable)
	case <-lost:
		return problem(runtime.ProblemUnavailable)
	case <-ctx.Done():
		return problem(runtime.ProblemUnavailable)
	}
	select {
	case response := <-answer:
		return response
	case <-s.stopped:
	case <-lost:
	case <-ctx.Done():
	}
	return problem(runtime.ProblemUnavailable)
}

func problem(code runtime.ProblemCode) runtime.Response {
	return runtime.Response{Problem: &runtime.Problem{Code: code}}
}

// askProgram is the program that sends requests: its arguments are the name.
func askProgram(ctx context.Context, p *Proc) int {
	return codeOf(p, printAnswer(p, p.Ask(ctx, "fake", strings.Join(p.Args[1:], "."), "{}")))
}

// askRequest is box ask. It asks again while a claim is not announced yet.
func askRequest(ctx context.Context, p *Proc, args []string) error {
	r := p.Ask(ctx, args[0], args[1], args[2])
	for end := time.Now().Add(claimTimeout); lacksClaim(r) && args[1] != "release" && ctx.Err() == nil && time.Now().Before(end); {
		<-time.After(claimTimeout / 100)
		r = p.Ask(ctx, args[0], args[1], args[2])
	}
	return printAnswer(p, r)
}

// claimTimeout is how long the program asks again without a claim, as that of real
// containers does: a server announces a claim just after it became active.
const claimTimeout = time.Second

func lacksClaim(r runtime.Response) bool {
	return r.Problem != nil && r.Problem.Code == runtime.ProblemNoClaim
}

func printAnswer(p *Proc, r runtime.Response) error {
	if r.Problem != nil {
		return fmt.Errorf("%s: %s", r.Problem.Code, r.Problem.Detail)
	}
	_, err := fmt.Fprintln(p.Stdout, string(r.Body))
	return err
}
