package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// ports are the connections to ports of the container. Each belongs to the claim
// whose fence it has. Its methods may be called by multiple goroutines.
type ports struct {
	admit func(fence int64) error

	// mu guards open. It is held while a fence is admitted, so that close misses no
	// connection that opens at the same time.
	mu   sync.Mutex
	open map[*portConn]bool
}

// portConn is a connection to a port.
type portConn struct {
	fence  int64
	closed chan struct{} // closed when the connection must end
}

func newPorts(admit func(fence int64) error) *ports {
	return &ports{admit: admit, open: make(map[*portConn]bool)}
}

// begin counts a connection before it is opened.
func (p *ports) begin(fence int64) (*portConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.admit(fence); err != nil {
		return nil, err
	}
	if len(p.open) >= runtime.MaxPortConnections {
		return nil, fmt.Errorf("%w: %d are open", runtime.ErrTooManyConnections, len(p.open))
	}
	c := &portConn{fence: fence, closed: make(chan struct{})}
	p.open[c] = true
	return c, nil
}

func (p *ports) end(c *portConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// closeBelow closes the connections with a smaller fence, and lets none of them
// begin.
func (p *ports) closeBelow(fence int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.admit(fence); err != nil {
		return err
	}
	p.closeIf(func(c *portConn) bool { return c.fence < fence })
	return nil
}

// closeAll closes every connection. The processes at their other ends have ended.
func (p *ports) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeIf(func(*portConn) bool { return true })
}

// closeIf closes connections. They do not count any more: what is left of one
// ends without waiting for anything. The caller holds mu.
func (p *ports) closeIf(isOver func(*portConn) bool) {
	for c := range p.open {
		if isOver(c) {
			close(c.closed)
			delete(p.open, c)
		}
	}
}

// handleDial starts a connection to a port. It responds when the connection has
// ended.
func (c *session) handleDial(in *shim.Incoming) error {
	r := in.Request
	if r.Port < 1 || r.Port > maxPort || r.Streams != 1 || r.Fence <= shim.NoFence {
		return errInvalidRequest
	}
	go func() { respond(in, shim.Response{}, c.supervisor.ports.serve(in)) }() // ends with the connection or the session
	return nil
}

// maxPort is the greatest TCP port.
const maxPort = 65535

// handleClosePorts closes the connections of earlier claims.
func (c *session) handleClosePorts(in *shim.Incoming) error {
	err := c.supervisor.ports.closeBelow(in.Request.Fence)
	go respond(in, shim.Response{}, err) // ends with the write, which has a timeout
	return nil
}

// serve connects to the port that a request names and copies in both directions
// until both have ended, or one has failed.
func (p *ports) serve(in *shim.Incoming) error {
	c, err := p.begin(in.Request.Fence)
	if err != nil {
		return err
	}
	defer p.end(c)
	stream, ended := in.Stream(0), make(chan struct{})
	defer close(ended)
	over, opened := make(chan struct{}), make(chan *os.File, 1)
	defer close(opened)
	go func() { // ends with the connection
		select {
		case <-c.closed:
			stream.Reset(errPortClosed)
		case <-stream.Done(): // the server has closed it, or is gone
		case <-ended:
			return
		}
		close(over)
		if socket := <-opened; socket != nil {
			resetOnClose(socket)
			socket.Close()
		}
	}()
	socket, err := dialPort(in.Request.Port, over)
	if err != nil {
		return err
	}
	defer socket.Close()
	opened <- socket
	if err := in.SendProgress(shim.ProgressStarted); err != nil {
		return err
	}
	return copyPort(stream, socket)
}

// errPortClosed is the reason of a connection that a change of the container has
// closed.
var errPortClosed = fmt.Errorf("%w: its connections were closed", runtime.ErrStaleFence)

// portBufferSize is the size of the buffer of one direction of a connection.
const portBufferSize = 16 << 10

// copyPort copies in both directions. The end of one leaves the other one as it
// is; a failure ends both.
func copyPort(stream *shim.Stream, socket *os.File) error {
	received := make(chan error, 1)
	go func() { // ends with the connection
		_, err := io.CopyBuffer(onlyWriter{socket}, onlyReader{stream}, make([]byte, portBufferSize))
		if err == nil {
			err = closeWrite(socket)
		}
		if err != nil {
			stream.Reset(err)
		}
		received <- err
	}()
	_, err := io.CopyBuffer(onlyWriter{stream}, onlyReader{socket}, make([]byte, portBufferSize))
	if err == nil {
		err = stream.CloseWrite()
	}
	if err != nil {
		stream.Reset(err)
	}
	return errors.Join(err, <-received)
}

// dialPortTimeout bounds how long one address may take to accept a connection.
const dialPortTimeout = 5 * time.Second
