package backend

import (
	"context"

	"github.com/hostler/hostler/runtime"
)

// DialPort implements runtime.Ports.DialPort.
func (c Containers) DialPort(ctx context.Context, id string, port int, fence int64) (runtime.PortConn, error) {
	conn, err := c.sessions.Get(id).DialPort(ctx, port, fence)
	return conn, wrap(err, "connect to port %d of the container %s", port, id)
}

// ClosePorts implements runtime.Ports.ClosePorts. A container that has exited has
// no connections.
func (c Containers) ClosePorts(ctx context.Context, id string, fence int64) error {
	err := c.sessions.Get(id).ClosePorts(ctx, fence)
	if hasExited(err) {
		return nil
	}
	return wrap(err, "close the connections to ports of the container %s", id)
}
