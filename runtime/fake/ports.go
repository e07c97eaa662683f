package fake

import (
	"context"
	"net"
	"strconv"

	"github.com/hostler/hostler/runtime"
)

// containerPorts are what listens in a container, and the connections to it. The
// container's lock guards them.
type containerPorts struct {
	listeners map[int]*listener
	open      map[*portPipe]bool
}

// listener is what listens on a port.
type listener struct {
	handle func(net.Conn)
	proc   *Proc // whose end is that of the listener; nil for that of a test
}

// Listen makes a container listen on a port until close is called. handle is
// called for each connection on a goroutine of its own, and closes it. The
// connection has a CloseWrite method.
func (rt *Runtime) Listen(id string, port int, handle func(net.Conn)) (close func()) {
	c, err := rt.lookup(id)
	if err != nil {
		return func() {}
	}
	return c.listen(port, &listener{handle: handle})
}

// Listen makes the process listen on a port until it ends, as Runtime.Listen does.
func (p *Proc) Listen(port int, handle func(net.Conn)) {
	p.c.listen(port, &listener{handle: handle, proc: p})
}

func (c *container) listen(port int, l *listener) (close func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ports.listeners == nil {
		c.ports.listeners = make(map[int]*listener)
	}
	c.ports.listeners[port] = l
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ports.listeners[port] == l {
			delete(c.ports.listeners, port)
		}
	}
}

// DialPort connects to what listens on a port.
func (rt *Runtime) DialPort(ctx context.Context, id string, port int, fence int64) (runtime.PortConn, error) {
	var conn *portConn
	call := Call{Op: "dial_port", ID: id, Args: []string{strconv.Itoa(port)}, Fence: fence}
	err := rt.do(ctx, call, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.checkReachable(); err != nil {
			return err
		}
		if err := c.admit(fence); err != nil {
			return err
		}
		l := c.ports.listeners[port]
		switch {
		case l == nil || c.main == nil || l.proc != nil && l.proc.dead:
			return runtime.ErrPortRefused
		case len(c.ports.open) >= runtime.MaxPortConnections:
			return runtime.ErrTooManyConnections
		}
		pipe := newPortPipe(c, port, fence)
		if c.ports.open == nil {
			c.ports.open = make(map[*portPipe]bool)
		}
		c.ports.open[pipe] = true
		conn = pipe.ends[0]
		go func() { // ends with the handler
			defer pipe.ends[1].Close()
			l.handle(pipe.ends[1])
		}()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// ClosePorts closes the connections of earlier claims.
func (rt *Runtime) ClosePorts(ctx context.Context, id string, fence int64) error {
	return rt.do(ctx, Call{Op: "close_ports", ID: id, Fence: fence}, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.checkReachable() != nil {
			return nil // it has none
		}
		if err := c.checkFence(fence); err != nil {
			return err
		}
		for pipe := range c.ports.open {
			if pipe.fence < fence {
				pipe.abort(runtime.ErrStaleFence)
			}
		}
		return nil
	})
}

// closeAll closes every connection. The caller holds the lock.
func (ports *containerPorts) closeAll(err error) {
	for pipe := range ports.open {
		pipe.abort(err)
	}
}

// loseConnections ends what is open to containers, as a lost connection does.
func (rt *Runtime) loseConnections() {
	rt.mu.RLock()
	all := make([]*container, 0, len(rt.containers))
	for _, c := range rt.containers {
		all = append(all, c)
	}
	rt.mu.RUnlock()
	for _, c := range all {
		c.loseCommands()
		c.mu.Lock()
		c.ports.closeAll(runtime.ErrUnavailable)
		c.mu.Unlock()
	}
}
