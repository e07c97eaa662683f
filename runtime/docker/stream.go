package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// maxStderr bounds what is kept of a command's stderr, in bytes.
const maxStderr = 16 << 10

// stream is one of our own programs that the engine runs in a container: Write
// writes to its stdin, Read reads its stdout.
type stream struct {
	r         *Runtime
	container string // the engine's id
	conn      types.HijackedResponse
	out       demux
}

// startProgram starts one of our programs in a container, as our own user.
func (r *Runtime) startProgram(ctx context.Context, engineID string, args ...string) (*stream, error) {
	created, err := r.api.ContainerExecCreate(ctx, engineID, container.ExecOptions{
		User: shim.UserGroup, Cmd: args, WorkingDir: "/",
		// A name without a value removes the variable: only process 1 needs the
		// container's key.
		Env:         []string{shim.ConfigEnv},
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, r.apiError(ctx, err)
	}
	guard := &hijackGuard{}
	conn, err := r.api.ContainerExecAttach(
		context.WithValue(ctx, hijackKey{}, guard), created.ID, container.ExecAttachOptions{})
	guard.release()
	s := &stream{r: r, container: engineID, conn: conn}
	if err != nil {
		if ctx.Err() != nil || isUnreachable(err) {
			return nil, r.apiError(ctx, err)
		}
		err = s.explainExit(ctx, err)
		if !errors.Is(err, runtime.ErrNotRunning) && !errors.Is(err, runtime.ErrNotFound) {
			// It is running, possibly again: the engine's rejection was temporary,
			// and its client has only a text for that.
			err = fmt.Errorf("%w: %w", runtime.ErrUnresponsive, err)
		}
		return nil, err
	}
	if ctx.Err() != nil { // the guard may have closed the connection
		conn.Close()
		return nil, context.Cause(ctx)
	}
	s.out.from = conn.Reader
	return s, nil
}

func (s *stream) Read(p []byte) (int, error)  { return s.out.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.conn.Conn.Write(p) }

// Close closes the connection to the program, which may keep running.
func (s *stream) Close() error {
	s.conn.Close()
	return nil
}

// explainExit explains why a program that should run does not: usually because
// its container does not either. Otherwise it returns the error itself.
func (s *stream) explainExit(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, runtime.ErrUnavailable) {
		return err
	}
	c, inspectErr := s.r.api.ContainerInspect(ctx, s.container)
	if inspectErr != nil {
		return errors.Join(err, s.r.apiError(ctx, inspectErr))
	}
	switch {
	case c.State.Paused:
		return fmt.Errorf("%w: it is paused: %w", runtime.ErrNotRunning, err)
	case !c.State.Running:
		return fmt.Errorf("%w: %w", runtime.ErrNotRunning, err)
	}
	return err
}

// bridge is the stream of a session. Instead of a bare EOF it reports the error
// text of the bridge or the engine.
type bridge struct {
	*stream
	id        string // Hostler's id of the container
	startedAt string // when the engine started it, by its own clock
}

func (b bridge) Read(p []byte) (int, error) {
	first := !b.out.started
	n, err := b.out.Read(p)
	if first && n > 0 && p[0] != 0 {
		// A frame begins with the high byte of a length that is never so large:
		// this is the engine's error text for a bridge that did not start.
		text, _ := io.ReadAll(io.LimitReader(b.out.from, maxStderr))
		return 0, fmt.Errorf("%w: %s", runtime.ErrUnresponsive, strings.TrimSpace(string(p[:n])+string(text)))
	}
	switch {
	case err == nil:
		return n, nil
	case b.out.stderr.Len() > 0:
		return n, shim.ToolError(1, b.out.stderr.String())
	}
	// Not io.EOF, which would look like an engine that disconnected: it may be
	// that only the container has exited.
	return n, fmt.Errorf("the session's bridge ended: %s", err.Error())
}

// demux reads the stdout of a stream in which the engine multiplexes stdout and
// stderr, and keeps the beginning of stderr. It is not safe for concurrent use.
type demux struct {
	from      *bufio.Reader
	remaining int64 // of the current packet of stdout
	started   bool  // something of stdout was read
	stderr    strings.Builder
}

// The header of the engine's packets: a byte for the stream, three zero bytes,
// and four bytes of length.
const (
	packetHeader = 8
	packetStdout = 1
	packetStderr = 2
)

func (d *demux) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.remaining == 0 {
		if err := d.nextPacket(); err != nil {
			return 0, err
		}
	}
	n, err := d.from.Read(p[:min(int64(len(p)), d.remaining)])
	d.remaining -= int64(n)
	d.started = d.started || n > 0
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // within a packet
	}
	return n, err
}

// nextPacket reads up to the content of the next packet of stdout, empty or not.
// Between two packets the stream may end.
func (d *demux) nextPacket() error {
	var header [packetHeader]byte
	if _, err := io.ReadFull(d.from, header[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(header[4:]))
	switch header[0] {
	case packetStdout:
		d.remaining = size
		return nil
	case packetStderr:
		return d.readStderr(size)
	}
	return fmt.Errorf("%w: it sent a packet of the unknown kind %d", runtime.ErrUnavailable, header[0])
}

// readStderr reads a packet of stderr and keeps what fits into maxStderr.
func (d *demux) readStderr(size int64) error {
	kept := min(size, int64(maxStderr-d.stderr.Len()))
	if _, err := io.CopyN(&d.stderr, d.from, kept); err != nil {
		return unexpectedEOF(err)
	}
	_, err := io.CopyN(io.Discard, d.from, size-kept)
	return unexpectedEOF(err)
}

// unexpectedEOF distinguishes an EOF within a packet from one between two.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
