package access

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
)

// The limits of connections and, apart from them, of requests to ports at once.
const (
	maxPortsPerClaim  = runtime.MaxPortConnections
	maxPortsPerTenant = 2 * maxPortsPerClaim
	maxPorts          = 2048 // of this server
)

// tooManyRetry is when to try again after a TooManyError.
const tooManyRetry = time.Second

// TooManyError means that as many connections or requests to ports are open as may
// be.
type TooManyError struct {
	What  string        // as a noun: connections
	Of    string        // the claim, the tenant or this server
	Limit int           // how many may be open
	Retry time.Duration // after this time another one may be tried
}

// Error is for programs of tenants: it names no other tenant.
func (e *TooManyError) Error() string {
	return "too many " + e.What + " to ports of " + e.Of + " are open"
}

// Unwrap returns the error of a container that has too many.
func (e *TooManyError) Unwrap() error { return runtime.ErrTooManyConnections }

// portSlots bound what is open at once. The zero value has none.
type portSlots struct {
	mu       sync.Mutex // guards what follows
	byClaim  map[string]int
	byTenant map[string]int
	all      int
}

// take takes a slot until end is called. It does not wait.
func (s *portSlots) take(what string, g Grant) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byClaim == nil {
		s.byClaim, s.byTenant = make(map[string]int), make(map[string]int)
	}
	claimID, tenant := g.Claim.ID, g.Claim.Tenant
	for _, limit := range []struct {
		of         string
		open, most int
	}{
		{"the claim", s.byClaim[claimID], maxPortsPerClaim},
		{"the tenant", s.byTenant[tenant], maxPortsPerTenant},
		{"this server", s.all, maxPorts},
	} {
		if limit.open >= limit.most {
			return nil, &TooManyError{What: what, Of: limit.of, Limit: limit.most, Retry: tooManyRetry}
		}
	}
	s.byClaim[claimID]++
	s.byTenant[tenant]++
	s.all++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		giveBack(s.byClaim, claimID)
		giveBack(s.byTenant, tenant)
	}), nil
}

func giveBack[K comparable](open map[K]int, key K) {
	if open[key]--; open[key] == 0 {
		delete(open, key)
	}
}

// Dial connects to a port of a claim's container. The connection is a use of the
// claim until it is closed, and ends with the claim. Errors: those of Enter,
// *DeniedError, *TooManyError, and those of runtime.Ports.DialPort.
func (s *Service) Dial(ctx context.Context, claimID string, port int) (net.Conn, error) {
	g, err := s.Enter(ctx, claimID)
	if err != nil {
		return nil, err
	}
	use := PortUse{Port: port}
	begun := time.Now()
	conn, err := s.dial(ctx, g, port, func() error { return s.o.Gates.Request(ctx, g, use) })
	if err != nil {
		return nil, err
	}
	release := s.Hold(ctx, g)
	conn.end = append(conn.end, release, func() {
		s.o.Uses.RequestCompleted(g, use, RequestDone{
			Sent: conn.sent.Load(), Received: conn.received.Load(), Duration: time.Since(begun),
		})
	})
	return conn, nil
}

// DialForRequests connects to a port for requests that BeginRequest permits. The
// connection itself passes no gate and is no use of the claim: it may be idle.
func (s *Service) DialForRequests(ctx context.Context, claimID string, port int) (net.Conn, error) {
	g, err := s.Enter(ctx, claimID)
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx, g, port, func() error { return nil })
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// dial takes a slot and connects, if the gate permits it. A gate may take its time:
// what waits for one has a slot, too.
func (s *Service) dial(ctx context.Context, g Grant, port int, gate func() error) (*portConn, error) {
	end, err := s.connections.take("connections", g)
	if err != nil {
		return nil, err
	}
	if err = gate(); err == nil {
		var conn runtime.PortConn
		if conn, err = s.o.Runtime.DialPort(ctx, g.Container(), port, g.Fence()); err == nil {
			return &portConn{PortConn: conn, address: portAddress(port), end: []func(){end}}, nil
		}
	}
	end()
	return nil, asUsed(err)
}

// PortRequest is an HTTP request to a port that may begin.
type PortRequest struct {
	begun time.Time
	end   func(RequestDone)
}

// BeginRequest permits one HTTP request to a port of a claim's container. It is a
// use of the claim until End is called. Errors: those of Enter, *DeniedError,
// *TooManyError.
func (s *Service) BeginRequest(ctx context.Context, claimID string, use PortUse) (*PortRequest, error) {
	g, err := s.Enter(ctx, claimID)
	if err != nil {
		return nil, err
	}
	giveBack, err := s.requests.take("requests", g)
	if err != nil {
		return nil, err
	}
	if err := s.o.Gates.Request(ctx, g, use); err != nil {
		giveBack()
		return nil, err
	}
	release := s.Hold(ctx, g)
	return &PortRequest{begun: time.Now(), end: func(done RequestDone) {
		release()
		giveBack()
		s.o.Uses.RequestCompleted(g, use, done)
	}}, nil
}

// End records how the request ended. It is called once.
func (r *PortRequest) End(status int, sent, received int64) {
	r.end(RequestDone{Status: status, Sent: sent, Received: received, Duration: time.Since(r.begun)})
}

// portConn is a runtime.PortConn as a net.Conn, without deadlines.
type portConn struct {
	runtime.PortConn
	address        portAddress
	sent, received atomic.Int64
	closeOnce      sync.Once
	end            []func()
}

// Read implements net.Conn.
func (c *portConn) Read(p []byte) (int, error) {
	n, err := c.PortConn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *portConn) Write(p []byte) (int, error) {
	n, err := c.PortConn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// Close implements net.Conn. A second call does nothing.
func (c *portConn) Close() (err error) {
	c.closeOnce.Do(func() {
		err = c.PortConn.Close()
		for _, end := range c.end {
			end()
		}
	})
	return err
}

func (c *portConn) LocalAddr() net.Addr              { return c.address }
func (c *portConn) RemoteAddr() net.Addr             { return c.address }
func (c *portConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *portConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *portConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// portAddress is the address of a port in a container.
type portAddress int

// Network implements net.Addr.
func (portAddress) Network() string { return "tcp" }

func (portAddress) String() string { return "container" }
