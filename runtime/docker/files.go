package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hostler/hostler/runtime"
)

// untarArgs is our program that unpacks its stdin for a user.
func untarArgs(user, dir string) []string {
	if user == "" {
		user = "0:0"
	}
	return []string{shimPath, "untar", "--user", user, "--", dir}
}

// tarArgs is our program that packs a folder.
func tarArgs(dir string) []string { return []string{shimPath, "tar", "--", dir} }

// PutFiles is runtime.Files.PutFiles.
func (r *Runtime) PutFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	if err := r.putFiles(ctx, id, dir, tar); err != nil {
		return fmt.Errorf("put files into %s of the container %s: %w", dir, id, err)
	}
	return nil
}

func (r *Runtime) putFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	c, err := r.running(ctx, id)
	if err != nil {
		return err
	}
	s, err := r.run(ctx, c.ID, untarArgs(c.Config.Labels[labelUser], writable(c.Mounts, dir))...)
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	sent := make(chan error, 1)
	// The goroutine ends with the caller's reader, or with its next write after
	// the program has ended and the stream is closed.
	go func() { sent <- s.send(tar) }()
	_, readErr := io.Copy(io.Discard, s)
	if ctx.Err() != nil {
		return context.Cause(ctx) // not waiting for a reader that may hang
	}
	failure := s.result(ctx)
	s.Close()
	var sendErr error
	select {
	case sendErr = <-sent:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return putOutcome(failure, sendErr, readErr)
}

// writable is where a folder can be written: itself, or, on a volume that the
// container may only read, the same folder where the volume is mounted aside.
func writable(mounts []container.MountPoint, dir string) string {
	dir = path.Clean(dir)
	var on container.MountPoint // what dir is on: the longest target above it
	aside := make(map[string]string)
	for _, m := range mounts {
		if strings.HasPrefix(m.Destination, asideDir+"/") {
			aside[m.Name] = m.Destination
		} else if (dir == m.Destination || strings.HasPrefix(dir, m.Destination+"/")) &&
			len(m.Destination) > len(on.Destination) {
			on = m
		}
	}
	if other, ok := aside[on.Name]; ok && !on.RW {
		return other + strings.TrimPrefix(dir, on.Destination)
	}
	return dir
}

// putOutcome says what went wrong. What the caller's reader failed with counts
// before what the program made of it, and that before a stream that broke
// because of it. A stream that broke is never a success: the program may have
// taken a part for the whole.
func putOutcome(failure, sendErr, readErr error) error {
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

// send copies everything to the program's stdin and closes it. When the source
// fails the stream is closed altogether.
func (s *stream) send(source io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, readErr := source.Read(buf)
		if n > 0 {
			if _, err := s.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return s.conn.CloseWrite()
		}
		if readErr != nil {
			s.Close()
			return &sourceError{readErr}
		}
	}
}

// GetFiles is runtime.Files.GetFiles.
func (r *Runtime) GetFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	files, err := r.getFiles(ctx, id, dir)
	if err != nil {
		return nil, fmt.Errorf("get the files in %s of the container %s: %w", dir, id, err)
	}
	return files, nil
}

func (r *Runtime) getFiles(ctx context.Context, id, dir string) (*archive, error) {
	c, err := r.running(ctx, id)
	if err != nil {
		return nil, err
	}
	s, err := r.run(ctx, c.ID, tarArgs(dir)...)
	if err != nil {
		return nil, err
	}
	a := &archive{ctx: ctx, stream: s, from: bufio.NewReaderSize(s, 64<<10)}
	a.stop = context.AfterFunc(ctx, func() { s.Close() })
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
	ctx    context.Context //nolint:containedctx // the call that the stream belongs to
	stream *stream
	from   *bufio.Reader
	stop   func() bool
	done   error // what every further Read gives
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
	failure := a.stream.result(a.ctx)
	if failure != nil {
		if errors.Is(failure, runtime.ErrNotRunning) || errors.Is(failure, runtime.ErrNotFound) {
			return fmt.Errorf("%w: %w", runtime.ErrLost, failure)
		}
		return failure
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream broke: %w", runtime.ErrUnavailable, err)
	}
	return io.EOF
}

// Close gives up what was not read.
func (a *archive) Close() error {
	a.stop()
	return a.stream.Close()
}

// Changed is runtime.Files.Changed.
func (r *Runtime) Changed(ctx context.Context, id string, dirs []string) (at time.Time, err error) {
	session, err := r.session(id)
	if err == nil {
		at, err = session.Changed(ctx, dirs)
	}
	if err != nil {
		return at, fmt.Errorf("look for changes in the container %s: %w", id, err)
	}
	return at, nil
}
