// Package pipetest serves HTTP on connections in memory, for tests. A goroutine
// that waits on such a connection is durably blocked, so that a bubble of
// testing/synctest moves its clock on. That is not so of a socket.
//
// A connection has no buffer: a write returns when the peer has read it.
package pipetest

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// backlog is how many connections wait to be accepted.
const backlog = 128

// Listener accepts connections in memory.
type Listener struct {
	addr   net.Addr
	conns  chan *Conn
	closed chan struct{}
	close  func()
}

// Listen returns a listener at a port of 127.0.0.1, in name only.
func Listen(port int) *Listener {
	l := &Listener{addr: loopback(port), conns: make(chan *Conn, backlog), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func loopback(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener and the connections that it has not accepted.
func (l *Listener) Close() error {
	l.close()
	for {
		select {
		case c := <-l.conns:
			_ = c.Close() // of a pipe, which has no errors
		default:
			return nil
		}
	}
}

// Addr returns the address that Listen was called with.
func (l *Listener) Addr() net.Addr { return l.addr }

// Dial connects to the listener. Like a socket's, its connection need not be
// accepted.
func (l *Listener) Dial(ctx context.Context) (*Conn, error) {
	client, server := newConns(l.addr)
	select {
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.addr, Err: syscall.ECONNREFUSED}
	default:
	}
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.addr, Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
