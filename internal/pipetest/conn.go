package pipetest

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// clientPort is the port of every client.
const clientPort = 40000

// Conn is one end of a connection. Its directions are two pipes, so that each can
// be closed without the other.
type Conn struct {
	net.Conn // what it reads
	out      net.Conn
	closed   atomic.Bool
	local    net.Addr
	remote   net.Addr
}

// newConns returns the ends of a connection to an address.
func newConns(addr net.Addr) (client, server *Conn) {
	request, served := net.Pipe()
	answer, answered := net.Pipe()
	from := loopback(clientPort)
	return &Conn{Conn: answered, out: request, local: from, remote: addr}, &Conn{Conn: served, out: answer, local: addr, remote: from}
}

// Read returns an error, and no end, when this end is closed, also if the peer has
// closed its own in response.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.closed.Load() {
		err = net.ErrClosed
	}
	return n, err
}

// Write waits until the peer has read it all.
func (c *Conn) Write(b []byte) (int, error) { return c.out.Write(b) }

// CloseWrite ends what the peer reads.
func (c *Conn) CloseWrite() error { return c.out.Close() }

// Close ends both directions. The peer learns of it when it cannot respond any more.
func (c *Conn) Close() error {
	c.closed.Store(true)
	return errors.Join(c.Conn.Close(), c.out.Close())
}

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets the deadline of reads and writes.
func (c *Conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// SetReadDeadline sets the deadline of reads, also when the peer sends no more:
// a pipe would return an error.
func (c *Conn) SetReadDeadline(at time.Time) error {
	_ = c.Conn.SetReadDeadline(at)
	return nil
}

// SetWriteDeadline sets the deadline of writes, also when the peer reads no more.
func (c *Conn) SetWriteDeadline(at time.Time) error {
	_ = c.out.SetWriteDeadline(at)
	return nil
}
