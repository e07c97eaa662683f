package runtime

import (
	"context"
	"io"
)

// MaxPortConnections bounds the connections to ports of a container that are open
// at once.
const MaxPortConnections = 256

// Ports connects to what listens in containers.
type Ports interface {
	// DialPort connects to a TCP port of a container, from inside: to its loopback
	// address, so also to a program that listens on nothing else, and needs no
	// network between the server and the container. ErrPortRefused means that
	// nothing listens there. ErrTooManyConnections means that MaxPortConnections
	// are open. ErrStaleFence means that the claim of the fence has ended:
	// a restart, a stop and a wipe close the connections. ErrUnsupported means
	// that an older server created the container.
	//
	// A backend whose containers share the network of the machine connects to the
	// ports that the spec lists, and to no other one: ErrPortRefused.
	//
	// A connection holds at most PortWindow bytes in each direction that its reader
	// has not read.
	DialPort(ctx context.Context, id string, port int, fence int64) (PortConn, error)
	// ClosePorts closes the connections of a container with a smaller fence, and
	// lets none of them open.
	ClosePorts(ctx context.Context, id string, fence int64) error
}

// PortWindow bounds what a connection to a port holds, in bytes.
const PortWindow = 64 << 10

// PortConn is a connection to a port. One goroutine may read while another one
// writes. Close may be called by any, more than once. It ends both directions at
// once: what was written and has not arrived is lost, unless the other end has
// ended its direction after CloseWrite. An error of Read that is ErrUnavailable means that the connection to
// the container was lost.
type PortConn interface {
	io.ReadWriteCloser
	// CloseWrite ends what is sent, as the FIN of TCP does. The other direction
	// continues.
	CloseWrite() error
}
