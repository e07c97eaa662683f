package backend

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// fileCommands is what runs the program: runtime.Commander.
type fileCommands interface {
	OpenCommand(ctx context.Context, id string, cmd runtime.TenantCommand) (runtime.CommandStream, error)
	EndCommand(ctx context.Context, id, commandID string, fence int64) error
}

// filePrograms runs the program in one container.
type filePrograms struct {
	commands fileCommands
	id       string
	program  string
	root     string        // confines all paths; empty for "/"
	silence  time.Duration // how long it may print nothing when output is due
}

// fileCall is one operation.
type fileCall struct {
	op      shim.FileOp
	ref     runtime.FileRef
	request shim.FileRequest
	input   bool
	timeout time.Duration
}

// fileGrace is how long the program may take to remove what is incomplete, also on
// a busy machine.
const fileGrace = 10 * time.Second

// open starts the program. The caller closes the command.
func (p filePrograms) open(ctx context.Context, call fileCall) (*fileCommand, error) {
	request, err := p.encode(call)
	if err != nil {
		return nil, err
	}
	grace := fileGrace
	cmd := runtime.TenantCommand{
		ID: rand.Text(), Args: []string{p.program, shim.FileCommand, string(call.op), request},
		Workdir: "/", Input: call.input, Timeout: call.timeout, Grace: &grace, Fence: call.ref.Fence, Internal: true,
	}
	stream, err := p.commands.OpenCommand(ctx, p.id, cmd)
	f := &fileCommand{ctx: ctx, programs: p, id: cmd.ID, fence: cmd.Fence, stream: stream}
	f.due.Store(!call.input)
	if err != nil {
		if mayHaveStarted(err) {
			f.end()
		}
		return nil, err
	}
	f.silent = time.AfterFunc(p.silence, f.stall)
	f.silent.Stop()
	f.frames = shim.NewFileReader(f)
	f.stopWatch = context.AfterFunc(ctx, func() { _ = stream.Close() })
	return f, nil
}

// mayHaveStarted reports whether a command may run although it was not opened.
func mayHaveStarted(err error) bool {
	_, failed := errors.AsType[*runtime.StartError](err)
	return !failed && !errors.Is(err, runtime.ErrTooManyCommands) && !errors.Is(err, runtime.ErrStaleFence) &&
		!errors.Is(err, runtime.ErrUnsupported) && !errors.Is(err, runtime.ErrNotFound) &&
		!errors.Is(err, runtime.ErrNotRunning)
}

// maxWithin bounds FileRef.Within.
const maxWithin = 64

func (p filePrograms) encode(call fileCall) (string, error) {
	call.request.Root = p.root
	if len(call.ref.Within) > maxWithin {
		return "", invalidPath("there are more than %d allowed directories", maxWithin)
	}
	for i, name := range append([]string{call.ref.Path}, call.ref.Within...) {
		if !strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) || len(name) > shim.MaxFilePath {
			return "", invalidPath("a path is absolute, without NUL, and has at most %d bytes", shim.MaxFilePath)
		}
		if clean := []byte(path.Clean(name)); i == 0 {
			call.request.Path = clean
		} else {
			call.request.Within = append(call.request.Within, clean)
		}
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(call.request); err != nil {
		return "", err
	}
	if encoded.Len() > shim.MaxFileRequest {
		return "", invalidPath("the allowed directories are too long")
	}
	return strings.TrimSpace(encoded.String()), nil
}

func invalidPath(format string, args ...any) error {
	return &runtime.FileError{Reason: runtime.FileInvalid, Detail: fmt.Sprintf(format, args...)}
}

// retry performs a call that changes nothing, a second time if the connection was
// lost.
func (p filePrograms) retry(ctx context.Context, call fileCall, receive func(*fileCommand) error) error {
	for attempt := 1; ; attempt++ {
		f, err := p.open(ctx, call)
		if err == nil {
			err = receive(f)
			f.close()
		}
		if attempt == 2 || ctx.Err() != nil || !errors.Is(err, runtime.ErrUnavailable) {
			return err
		}
	}
}

// send performs a call with content.
func (p filePrograms) send(ctx context.Context, call fileCall, content io.Reader, receive func(*fileCommand) error) error {
	f, err := p.open(ctx, call)
	if err != nil {
		return err
	}
	ended, sent := make(chan struct{}), make(chan error, 1)
	// The goroutine ends with the caller's reader, or with its next write after
	// the program has ended.
	go func() { sent <- f.sendContent(content, ended) }()
	failure := receive(f)
	close(ended)
	f.close() // nothing waits for room any more
	select {
	case err = <-sent: // the goroutine no longer uses the caller's reader
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*contentError](err); ok {
		return err
	}
	if failure == nil && !f.due.Load() {
		return errForged // it cannot have received all
	}
	return failure
}

// contentError is an error of the caller's reader.
type contentError struct{ err error }

func (e *contentError) Error() string { return "read the content: " + e.err.Error() }
func (e *contentError) Unwrap() error { return e.err }

// errEnded is the error for content that was not sent, because the program has
// ended.
var errEnded = errors.New("the program has ended")

// sendContent sends all content and its end. Without the end, the program does not
// use what it has received.
func (f *fileCommand) sendContent(content io.Reader, ended <-chan struct{}) error {
	in := &fileInput{command: f}
	out, buf := shim.NewFileWriter(in), make([]byte, shim.MaxData)
	for {
		n, readErr := content.Read(buf)
		select {
		case <-ended:
			return errEnded
		default:
		}
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			f.outputIsDue()
			if err := out.Frame(shim.FileEnd, nil); err != nil {
				return err
			}
			_ = f.stream.CloseInput() // it has received the end
			return nil
		case readErr != nil:
			f.outputIsDue()
			return errors.Join(&contentError{readErr}, f.stream.CloseInput())
		}
	}
}
