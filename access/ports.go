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

// maxPorts bounds the connections and, apart from them, the requests to ports.
var maxPorts = bounds{perClaim: runtime.MaxPortConnections, perTenant: 2 * runtime.MaxPortConnections, total: 2048}

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
	end, err := s.connections.take(g)
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
	giveBack, err := s.requests.take(g)
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
