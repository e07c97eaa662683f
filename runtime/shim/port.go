package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/runtime"
)

// portTimeout bounds how long a container may take to connect to one of its ports.
// It is more than the program needs.
const portTimeout = 15 * time.Second

// maxPort is the greatest TCP port.
const maxPort = 65535

// DialPort implements runtime.Ports.DialPort. What fails here does not count
// against the container: tenants connect as often as they like.
func (s *Session) DialPort(ctx context.Context, port int, fence int64) (runtime.PortConn, error) {
	if port < 1 || port > maxPort {
		return nil, fmt.Errorf("%w: %d is not a port", runtime.ErrPortRefused, port)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, portTimeout, errPortTimeout)
	defer cancel()
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	var conn *portConn
	err := s.withRetry(ctx, "connect to a port", false, func(c *sessionConn) (err error) {
		conn, err = dialPortOn(ctx, c, Request{
			Op: OpDial, Port: port, Fence: fence, Streams: 1, Window: runtime.PortWindow,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// ClosePorts implements runtime.Ports.ClosePorts. A container that does not answer in
// time is tainted: it must not hold up the release of its claim.
func (s *Session) ClosePorts(ctx context.Context, fence int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, silentError(callTimeout))
	defer cancel()
	err := s.withRetry(ctx, "close the connections to ports", true, func(c *sessionConn) error {
		if !c.Has(FeaturePorts) {
			return nil
		}
		_, err := roundTrip(ctx, c, Request{Op: OpClosePorts, Fence: fence})
		return err
	})
	return asEndError(err)
}

var errPortTimeout = fmt.Errorf("%w: no answer within %s", runtime.ErrUnavailable, portTimeout)

// dialPortOn requests a connection on one session, and waits until it is open.
func dialPortOn(ctx context.Context, c *sessionConn, r Request) (*portConn, error) {
	if !c.Has(FeaturePorts) || !c.Has(FeatureCommands) {
		return nil, runtime.ErrUnsupported
	}
	out, err := c.Call(r)
	if err != nil {
		return nil, err
	}
	select {
	case ev := <-out.events:
		switch {
		case ev.response == nil:
			return &portConn{out: out, stream: out.Stream(0), port: r.Port}, nil
		case ev.response.Error != nil:
			err = ev.response.Error.Err()
		default:
			err = fmt.Errorf("%w: a connection to a port ended before it began", runtime.ErrTainted)
		}
	case <-c.closed:
		err = errConnLost
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	out.Abandon()
	return nil, err
}

// portConn implements runtime.PortConn on a stream.
type portConn struct {
	out    Outgoing
	stream *Stream
	port   int
}

// Read implements io.Reader.
func (c *portConn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	return n, c.wrap("read from", err)
}

// Write implements io.Writer.
func (c *portConn) Write(p []byte) (int, error) {
	n, err := c.stream.Write(p)
	return n, c.wrap("write to", err)
}

// CloseWrite implements runtime.PortConn.CloseWrite.
func (c *portConn) CloseWrite() error { return c.wrap("write to", c.stream.CloseWrite()) }

// Close implements io.Closer. What the program has not received is lost, unless
// both directions have ended.
func (c *portConn) Close() error {
	c.out.Abandon()
	return nil
}

// wrap returns an error of the stream as one of the connection.
func (c *portConn) wrap(doing string, err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.Is(err, errConnLost):
		return fmt.Errorf("%s port %d: %w: %w", doing, c.port, runtime.ErrUnavailable, err)
	}
	return fmt.Errorf("%s port %d: %w", doing, c.port, err)
}
