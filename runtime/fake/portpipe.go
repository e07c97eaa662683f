package fake

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/hostler/hostler/runtime"
)

// portPipe is a connection to a port. The container's lock guards it.
type portPipe struct {
	c     *container
	port  int
	fence int64
	ends  [2]*portConn // the server's, and the program's
	err   error        // why it was closed from outside
}

// portConn is one end of a portPipe.
type portConn struct {
	pipe *portPipe
	peer *portConn

	received      []byte // that is not read
	ended         bool   // the peer sends no more
	closed        bool
	readDeadline  deadline
	writeDeadline deadline
}

func newPortPipe(c *container, port int, fence int64) *portPipe {
	p := &portPipe{c: c, port: port, fence: fence}
	client, program := &portConn{pipe: p}, &portConn{pipe: p}
	client.peer, program.peer = program, client
	p.ends = [2]*portConn{client, program}
	return p
}

// abort ends a connection in both directions. The caller holds the lock.
func (p *portPipe) abort(err error) {
	if p.err == nil {
		p.err = fmt.Errorf("connection to port %d: %w", p.port, err)
	}
	p.remove()
}

// remove removes a connection from those that are open. The caller holds the lock.
func (p *portPipe) remove() {
	delete(p.c.ports.open, p)
	p.c.changed.Broadcast()
}

// Read waits for what the peer sends.
func (c *portConn) Read(b []byte) (int, error) {
	c.pipe.c.mu.Lock()
	defer c.pipe.c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.pipe.err != nil:
			return 0, c.pipe.err
		case c.readDeadline.passed():
			return 0, os.ErrDeadlineExceeded
		case len(c.received) > 0:
			n := copy(b, c.received)
			c.received = c.received[n:]
			c.pipe.c.changed.Broadcast()
			return n, nil
		case c.ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		c.pipe.c.changed.Wait()
	}
}

// Write waits while the peer holds as much as it may.
func (c *portConn) Write(b []byte) (int, error) {
	c.pipe.c.mu.Lock()
	defer c.pipe.c.mu.Unlock()
	written := 0
	for {
		switch {
		case c.closed || c.peer.ended:
			return written, net.ErrClosed
		case c.pipe.err != nil:
			return written, c.pipe.err
		case c.writeDeadline.passed():
			return written, os.ErrDeadlineExceeded
		case c.peer.closed:
			return written, io.ErrClosedPipe
		case written == len(b):
			return written, nil
		}
		n := min(runtime.PortWindow-len(c.peer.received), len(b)-written)
		if n > 0 {
			c.peer.received = append(c.peer.received, b[written:written+n]...)
			written += n
			c.pipe.c.changed.Broadcast()
			continue
		}
		c.pipe.c.changed.Wait()
	}
}

// CloseWrite ends what the peer receives.
func (c *portConn) CloseWrite() error {
	c.pipe.c.mu.Lock()
	defer c.pipe.c.mu.Unlock()
	c.peer.ended = true
	c.pipe.c.changed.Broadcast()
	return nil
}

// Close ends both directions.
func (c *portConn) Close() error {
	c.pipe.c.mu.Lock()
	defer c.pipe.c.mu.Unlock()
	c.closed, c.peer.ended, c.received = true, true, nil
	c.readDeadline.stop()
	c.writeDeadline.stop()
	if c.pipe.ends[0] == c || c.peer.closed {
		c.pipe.remove()
	}
	c.pipe.c.changed.Broadcast()
	return nil
}

// deadline is when an operation ends. The container's lock guards it.
type deadline struct {
	at    time.Time // zero for none
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// set changes the deadline. The caller holds the lock of the container.
func (d *deadline) set(c *container, at time.Time) {
	d.stop()
	d.at = at
	c.changed.Broadcast()
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
	}
}

// SetDeadline sets both deadlines.
func (c *portConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // it has no error
	return c.SetWriteDeadline(t)
}

// SetReadDeadline makes calls of Read end.
func (c *portConn) SetReadDeadline(t time.Time) error {
	c.pipe.c.mu.Lock()
	defer c.pipe.c.mu.Unlock()
	c.readDeadline.set(c.pipe.c, t)
	return nil
}

// SetWriteDeadline makes calls of Write end.
func (c *portConn) SetWriteDeadline(t time.Time) error {
	c.pipe.c.mu.Lock()
	defer c.pipe.c.mu.Unlock()
	c.writeDeadline.set(c.pipe.c, t)
	return nil
}

// portAddr is the loopback address of a container with a port.
func (c *portConn) portAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.pipe.port}
}

// LocalAddr returns an address of the container.
func (c *portConn) LocalAddr() net.Addr { return c.portAddr() }

// RemoteAddr returns an address of the container.
func (c *portConn) RemoteAddr() net.Addr { return c.portAddr() }
