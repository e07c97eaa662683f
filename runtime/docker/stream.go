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

// maxStderr is how much a command of ours can say about its failure.
const maxStderr = 16 << 10

// stream is one of our own programs that the engine runs in a container: what
// is written goes to its stdin, what is read comes from its stdout.
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
		// A name without a value takes the variable away: only process 1 needs
		// the container's key.
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
			// It runs, or does again: what the engine refused was for the moment,
			// and its client has no more than a text for that.
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

// Close gives up on the program, which may run on.
func (s *stream) Close() error {
	s.conn.Close()
	return nil
}

// explainExit explains why a program that should run does not: mostly, because its
// container does not either. Otherwise it is the error itself.
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

// bridge is the stream of a session. Instead of a bare end it reports what the
// bridge or the engine had to say.
type bridge struct {
	*stream
	id        string // the container's, ours
	startedAt string // when the engine had started it, as it says
}

func (b bridge) Read(p []byte) (int, error) {
	first := !b.out.started
	n, err := b.out.Read(p)
	if first && n > 0 && p[0] != 0 {
		// A frame begins with the high byte of a length that is never so large:
		// this is the engine's account of why the bridge did not start.
		text, _ := io.ReadAll(io.LimitReader(b.out.from, maxStderr))
		return 0, fmt.Errorf("%w: %s", runtime.ErrUnresponsive, strings.TrimSpace(string(p[:n])+string(text)))
	}
	switch {
	case err == nil:
		return n, nil
	case b.out.stderr.Len() > 0:
		return n, shim.ToolError(1, b.out.stderr.String())
	}
	// Not io.EOF, which would look like an engine that broke off: it may be the
	// container alone that has ended.
	return n, fmt.Errorf("the session's bridge ended: %s", err.Error())
}

// demux reads the stdout of a stream in which the engine has packed stdout and
// stderr, and keeps the beginning of stderr. It is not safe for many
// goroutines.
type demux struct {
	from      *bufio.Reader
	remaining int64 // of the packet of stdout that is being read
	started   bool  // something of stdout was read
	stderr    strings.Builder
}

// The engine's packets: a byte for the stream, three of nothing, four of
// length.
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
	return fmt.Errorf("%w: it sends a packet of the kind %d", runtime.ErrUnavailable, header[0])
}

// readStderr reads a packet of stderr, and keeps what there is room for.
func (d *demux) readStderr(size int64) error {
	kept := min(size, int64(maxStderr-d.stderr.Len()))
	if _, err := io.CopyN(&d.stderr, d.from, kept); err != nil {
		return unexpectedEOF(err)
	}
	_, err := io.CopyN(io.Discard, d.from, size-kept)
	return unexpectedEOF(err)
}

// unexpectedEOF tells an end within a packet from one between two.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
