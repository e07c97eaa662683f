package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/shim"
)

// PutFiles is runtime.Files.PutFiles.
func (r *Runtime) PutFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	p, err := r.find(id)
	if err != nil {
		return fmt.Errorf("put files: %w", err)
	}
	c, _, err := p.spoken()
	if err != nil {
		return fmt.Errorf("put files: %w", err)
	}
	untar := exec.CommandContext(ctx, r.shim, "untar", "--root", p.root(), "--user", c.User, dir)
	var stderr bytes.Buffer
	untar.Stdin, untar.Stderr = tar, &stderr
	err = untar.Run()
	if err := toolError(context.Cause(ctx), err, &stderr); err != nil {
		return fmt.Errorf("put files into %s of %s: %w", dir, id, err)
	}
	return nil
}

// toolError is what the end of one of the shim's tools means; cause is why we
// ended it, if we did.
func toolError(cause, err error, stderr fmt.Stringer) error {
	if err == nil {
		return nil
	}
	if cause != nil {
		return cause
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return shim.ToolError(exit.ExitCode(), strings.TrimSpace(stderr.String()))
	}
	return err
}

// GetFiles is runtime.Files.GetFiles.
func (r *Runtime) GetFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	p, err := r.find(id)
	if err == nil {
		_, _, err = p.spoken()
	}
	if err != nil {
		return nil, fmt.Errorf("get files: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, r.shim, "tar", "--root", p.root(), dir)
	a := &archive{command: c, cause: func() error { return context.Cause(ctx) }, cancel: cancel, what: "get files from " + dir + " of " + id}
	c.Stderr = &a.stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return nil, unavailable(a.what, err)
	}
	a.out = bufio.NewReader(out)
	// An archive is never empty: no first byte is an error, and said at once.
	if _, err := a.out.Peek(1); err != nil {
		defer cancel()
		return nil, a.finish(err)
	}
	return a, nil
}

// archive is the output of a tar that runs.
type archive struct {
	command *exec.Cmd
	cause   func() error // why the command was ended, if it was
	cancel  context.CancelFunc
	what    string
	out     *bufio.Reader
	stderr  bytes.Buffer
	end     error // what Read says from the end on
	waited  bool
}

// Read says io.EOF only when tar has ended well.
func (a *archive) Read(b []byte) (int, error) {
	if a.end != nil {
		return 0, a.end
	}
	n, err := a.out.Read(b)
	if err != nil {
		a.end = a.finish(err)
		return n, a.end
	}
	return n, nil
}

func (a *archive) finish(read error) error {
	a.waited = true
	err := a.command.Wait()
	if err := toolError(a.cause(), err, &a.stderr); err != nil {
		return fmt.Errorf("%s: %w", a.what, err)
	}
	return read
}

// Close ends tar if it runs still.
func (a *archive) Close() error {
	a.cancel()
	if !a.waited {
		a.waited = true
		_ = a.command.Wait() // it was killed
	}
	return nil
}

// Changed is runtime.Files.Changed.
func (r *Runtime) Changed(ctx context.Context, id string, dirs []string) (time.Time, error) {
	if _, err := r.find(id); err != nil {
		return time.Time{}, fmt.Errorf("look for changes: %w", err)
	}
	at, err := r.sessions.With(id).Changed(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("container %s: %w", id, err)
	}
	return at, nil
}
