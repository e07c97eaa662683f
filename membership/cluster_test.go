package membership_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/membership/membershiptest"
	"github.com/hostler/hostler/runtime"
)

// cluster is several servers on one database in memory and on one engine. It
// checks at every engine call and at every takeover that the rules of package
// membership hold.
type cluster struct {
	*testing.T
	db    *membershiptest.Database
	began time.Time

	mu     sync.Mutex
	events []string // what happened, in order
	acted  int64    // the greatest term of which a leader used the engine
	nodes  []*node
	// resumed is by whom the work of each server was last resumed.
	resumed map[string]string
}

// inCluster runs a test with a cluster, in a bubble with its own time.
func inCluster(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{T: t, db: membershiptest.NewDatabase(), began: time.Now(), resumed: map[string]string{}}
		test(c)
		for _, n := range c.nodes {
			n.kill()
		}
	})
}

func (c *cluster) sleep(d time.Duration) {
	c.Helper()
	assert.NoError(c, flow.Sleep(c.Context(), d))
	synctest.Wait()
}

func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf(format, args...))
}

// requireEvents checks what happened since the last call.
func (c *cluster) requireEvents(want ...string) {
	c.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(c, want, slices.Clone(c.events))
	c.events = nil
}

// node is one server. While it holds its lease it uses the engine all the time,
// and while it leads also as the leader.
type node struct {
	c    *cluster
	name string
	db   *membershiptest.Session
	m    *membership.Member
	rt   runtime.Runtime

	kill   context.CancelFunc // as SIGKILL; a fenced server does it itself
	killed context.Context    //nolint:containedctx // it ends when the server is killed
	stop   context.CancelFunc // as SIGTERM
	runErr chan error         // the result of Run

	stopRenewing context.CancelFunc

	mu        sync.Mutex
	wall      time.Duration // how much the wall clock was set forward
	suspended time.Duration // how long the machine was suspended in total
	resumed   chan struct{} // not nil: the machine is suspended
	fault     func(ctx context.Context, method string) error
	answer    func(ctx context.Context, method string) error
	takeOver  func(replica string) error
	leftover  time.Duration // how long the leader's work takes after ctx ended
	calls     int           // of the engine that were not blocked
}

// start starts a server.
func (c *cluster) start(name string) *node { return c.startWith(name, func(*node) {}) }

// startWith starts a server that is prepared first.
func (c *cluster) startWith(name string, prepare func(*node)) *node {
	c.Helper()
	n := &node{c: c, name: name, db: c.db.Open(), runErr: make(chan error, 1)}
	n.killed, n.kill = context.WithCancel(c.Context())
	prepare(n)
	n.db.Begin = func(ctx context.Context, method string) error { return n.call(ctx, method, &n.fault) }
	n.db.Fenced = c.checkFence
	n.db.Answer = func(ctx context.Context, method string) error { return n.call(ctx, method, &n.answer) }
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	n.m = membership.New(n.db, log, membership.Options{Host: name, Exit: func() {
		c.note("%s exits", name)
		n.kill()
	}})
	began := time.Now()
	n.m.SetClock(func() (time.Duration, time.Time) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return time.Since(began) - n.suspended, time.Now().Add(n.wall)
	})
	n.rt = n.m.Guard(engine{node: n})
	assert.ErrorIs(c, n.m.CheckLease(), runtime.ErrUnavailable, "before it has registered")
	assert.NoError(c, n.m.Register(c.Context()))
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	renewing, stopRenewing := context.WithCancel(n.killed)
	n.stopRenewing = stopRenewing
	go n.m.Renew(renewing)
	go n.use(n.killed, "")
	ctx, stop := context.WithCancel(n.killed)
	n.stop = stop
	go func() {
		n.runErr <- n.m.Run(ctx, membership.Callbacks{OnLead: n.onLead, TakeOver: n.onTakeOver})
	}()
	synctest.Wait()
	return n
}

// call makes a method of the store fail or wait.
func (n *node) call(ctx context.Context, method string, fault *func(context.Context, string) error) error {
	if err := n.awaitResume(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	f := *fault
	n.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, method)
}

// awaitResume waits while the machine is suspended. A killed server gets an
// error.
func (n *node) awaitResume(ctx context.Context) error {
	n.mu.Lock()
	resumed := n.resumed
	n.mu.Unlock()
	if resumed != nil {
		select {
		case <-resumed:
		case <-n.killed.Done():
		}
	}
	return errors.Join(n.killed.Err(), ctx.Err())
}

// use uses the engine all the time until ctx ends.
func (n *node) use(ctx context.Context, as string) {
	for n.awaitResume(ctx) == nil {
		_ = n.rt.Destroy(ctx, as) // the engine checks the call
		_ = flow.Sleep(ctx, 100*time.Millisecond)
	}
}

const asLeader = "as leader"

func (n *node) onLead(ctx context.Context) error {
	n.c.note("%s leads", n.name)
	n.use(ctx, asLeader)
	n.mu.Lock()
	leftover := n.leftover
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.killed, leftover)
	defer cancel()
	n.use(ctx, asLeader)
	if n.killed.Err() == nil {
		n.c.note("%s ends to lead", n.name)
	}
	return nil
}

func (n *node) onTakeOver(_ context.Context, replica string) error {
	n.mu.Lock()
	takeOver := n.takeOver
	n.mu.Unlock()
	if replica != "" {
		n.c.note("%s takes over %s", n.name, replica)
		n.c.checkTakeover(n, replica)
	}
	if takeOver != nil {
		return takeOver(replica)
	}
	return nil
}

// checkTakeover checks that a server whose work is resumed can no longer write,
// and neither can a server that resumed its work before.
func (c *cluster) checkTakeover(by *node, replica string) {
	assert.True(c, c.db.HasFenced(replica), "%s can still write", replica)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.resumed[replica]; before != "" && before != by.db.ID() {
		assert.True(c, c.db.HasFenced(before), "%s also resumes the work of %s", before, replica)
	}
	c.resumed[replica] = by.db.ID()
}

// checkFence checks that a server that is fenced has not renewed its lease for a
// lease time and the margin, by the test's clock, or has left.
func (c *cluster) checkFence(r membership.Replica) {
	if !r.HasLeft() {
		assert.GreaterOrEqual(c, c.db.SinceRenewal(r.ID), membership.LeaseTime, "%s is alive", r.ID)
	}
}

// engine is the engine, as one server uses it.
type engine struct {
	runtime.Runtime
	node *node
}

func (e engine) Destroy(_ context.Context, as string) error {
	n, c := e.node, e.node.c
	assert.False(c, c.db.HasFenced(n.db.ID()), "%s uses the engine after it was fenced", n.name)
	n.mu.Lock()
	n.calls++
	n.mu.Unlock()
	if as == asLeader {
		holder, term := c.db.Term()
		c.mu.Lock()
		defer c.mu.Unlock()
		if holder != "" { // it was lost in a failover
			assert.Equal(c, n.db.ID(), holder, "%s acts as leader", n.name)
		}
		assert.GreaterOrEqual(c, term, c.acted)
		c.acted = term
	}
	return nil
}

// usesEngine reports whether the server used the engine within a second.
func (n *node) usesEngine() bool {
	n.mu.Lock()
	before := n.calls
	n.mu.Unlock()
	n.c.sleep(time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls > before
}

// setFault makes all methods of the store call f before their transaction.
func (n *node) setFault(f func(ctx context.Context, method string) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

// setAnswer makes all methods of the store call f after their transaction.
func (n *node) setAnswer(f func(ctx context.Context, method string) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = f
}

var errSilent = errors.New("the database does not answer")

// disconnect makes the database silent for this server.
func (n *node) disconnect() {
	n.setFault(func(ctx context.Context, _ string) error {
		return errors.Join(flow.Sleep(ctx, 3*time.Second), errSilent)
	})
}

func (n *node) connect() { n.setFault(nil) }

// suspend suspends the servers' machines: their monotonic clocks stop.
func (c *cluster) suspend(d time.Duration, nodes ...*node) {
	c.Helper()
	for _, n := range nodes {
		n.mu.Lock()
		n.resumed = make(chan struct{})
		n.mu.Unlock()
	}
	c.sleep(d)
	for _, n := range nodes {
		n.mu.Lock()
		n.suspended += d
		close(n.resumed)
		n.resumed = nil
		n.mu.Unlock()
	}
}

// setWall sets the wall clock forward.
func (n *node) setWall(by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wall += by
}

// on runs f before each call of a method.
func on(method string, f func(ctx context.Context) error) func(context.Context, string) error {
	return func(ctx context.Context, called string) error {
		if !strings.EqualFold(method, called) {
			return nil
		}
		return f(ctx)
	}
}
