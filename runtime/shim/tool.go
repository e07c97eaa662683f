package shim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hostler/hostler/runtime"
)

// Tool is one of the shim's own programs under way in a container, tar or
// untar, on a stream of the engine's. Read and Write are its stdout and stdin;
// Close gives up on it, and it may run on.
type Tool interface {
	io.ReadWriteCloser
	// CloseWrite ends its stdin.
	CloseWrite() error
	// Result is how it ended, after its output did, and what it said on its
	// stderr. An end that the engine does not know is an error, never success.
	Result(ctx context.Context) (stderr string, err error)
}

// Report is the last line on stderr of a tar or untar that ended well. Where an
// engine's connections break, an end may look like a good one: only when both
// ends have seen the same number of bytes is an archive whole.
type Report struct {
	Bytes int64 `json:"bytes"` // of the archive, written by tar or read by untar
}

// whole compares what was seen at this end with the tool's report.
func whole(seen int64, stderr string) error {
	var r Report
	if json.Unmarshal([]byte(lastLine(stderr)), &r) != nil {
		return fmt.Errorf("%w: the stream broke after %d bytes", runtime.ErrUnavailable, seen)
	}
	if r.Bytes != seen {
		return fmt.Errorf("%w: the stream broke: %d bytes at this end, %d at the other", runtime.ErrUnavailable, seen, r.Bytes)
	}
	return nil
}

// Send gives a tar stream to an untar, as runtime.Files.PutFiles does. It ends
// with ctx, whatever the tar's reader does.
func Send(ctx context.Context, t Tool, tar io.Reader) error {
	defer t.Close()
	defer context.AfterFunc(ctx, func() { t.Close() })()
	source := &meter{from: tar}
	sent := make(chan error, 1)
	// The goroutine ends with the caller's reader, or with its next write after
	// the program has ended and the stream is closed.
	go func() { sent <- feed(t, source) }()
	_, readErr := io.Copy(io.Discard, t)
	if ctx.Err() != nil {
		return context.Cause(ctx) // not waiting for a reader that may hang
	}
	stderr, failure := t.Result(ctx)
	t.Close()
	var sendErr error
	select {
	case sendErr = <-sent:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := sendOutcome(failure, sendErr, readErr); err != nil {
		return err
	}
	return whole(source.bytes, stderr)
}

// meter counts what is read.
type meter struct {
	from  io.Reader
	bytes int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.bytes += int64(n)
	return n, err
}

// sendOutcome says what went wrong. What the caller's reader failed with counts
// before what the program made of it, and that before a stream that broke
// because of it. A stream that broke is never a success: the program may have
// taken a part for the whole.
func sendOutcome(failure, sendErr, readErr error) error {
	if _, theirs := errors.AsType[*sourceError](sendErr); theirs {
		return sendErr
	}
	if failure != nil {
		return failure
	}
	if err := errors.Join(sendErr, readErr); err != nil {
		return fmt.Errorf("%w: the stream broke: %w", runtime.ErrUnavailable, err)
	}
	return nil
}

// sourceError is a failure of the caller's reader.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "read the archive: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// feed copies everything to the program's stdin and closes it. When the source
// fails the stream is closed altogether.
func feed(t Tool, source io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, readErr := source.Read(buf)
		if n > 0 {
			if _, err := t.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return t.CloseWrite()
		}
		if readErr != nil {
			t.Close()
			return &sourceError{readErr}
		}
	}
}

// Receive reads the tar stream of a tar, as runtime.Files.GetFiles does. The
// caller closes it; until then the program is Receive's.
func Receive(ctx context.Context, t Tool) (io.ReadCloser, error) {
	seen := &meter{from: t}
	a := &archive{ctx: ctx, tool: t, seen: seen, from: bufio.NewReaderSize(seen, 64<<10)}
	a.stop = context.AfterFunc(ctx, func() { t.Close() })
	// Even an empty archive has an end mark: without a byte there is none, and
	// the caller learns now that, say, the folder is not there.
	if _, err := a.from.Peek(1); err != nil {
		err = a.end(err)
		a.Close()
		return nil, err
	}
	return a, nil
}

// archive is a tar stream out of a container.
type archive struct {
	ctx  context.Context //nolint:containedctx // the call that the stream belongs to
	tool Tool
	seen *meter
	from *bufio.Reader
	stop func() bool
	done error // what every further Read gives
}

func (a *archive) Read(p []byte) (int, error) {
	if a.done != nil {
		return 0, a.done
	}
	n, err := a.from.Read(p)
	if err != nil {
		a.done = a.end(err)
	}
	return n, a.done
}

// end turns the end of the stream into io.EOF only when the program says that
// it was the archive's.
func (a *archive) end(err error) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	stderr, failure := a.tool.Result(a.ctx)
	if failure != nil {
		if errors.Is(failure, runtime.ErrNotRunning) || errors.Is(failure, runtime.ErrNotFound) {
			return fmt.Errorf("%w: %w", runtime.ErrLost, failure)
		}
		return failure
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream broke: %w", runtime.ErrUnavailable, err)
	}
	if err := whole(a.seen.bytes, stderr); err != nil {
		return err
	}
	return io.EOF
}

// Close gives up what was not read.
func (a *archive) Close() error {
	a.stop()
	return a.tool.Close()
}
