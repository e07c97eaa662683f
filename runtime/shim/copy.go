package shim

import (
	"context"
	"errors"
	"io"

	"github.com/hostler/hostler/runtime"
)

// CopyIn implements runtime.Files.CopyIn, for a directory that is writable. It
// ends with ctx, whatever the archive's reader does.
func (s *Session) CopyIn(ctx context.Context, dir string, fence int64, archive io.Reader) error {
	t, err := s.startTransfer(ctx, "copy in", Request{Op: OpUntar, Paths: []string{dir}, Fence: fence, Streams: 1})
	if err != nil {
		return err
	}
	defer t.abort()
	sent := make(chan error, 1)
	// The goroutine ends with the caller's reader, or with its next write after
	// the transfer has ended.
	go func() { sent <- t.sendArchive(archive) }()
	ev, err := t.waitEvent()
	failure := t.result(ev, err)
	if failure != nil {
		t.stream.Reset(failure)
	}
	select {
	case err = <-sent: // the goroutine no longer uses the caller's reader
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return uploadError(failure, err)
}

// uploadError returns the error of an upload. An error of the caller's reader
// takes precedence over how the program reacted to it. An archive that was not
// sent completely is never a success: the program may have taken a part for the
// whole.
func uploadError(failure, sendErr error) error {
	if _, ok := errors.AsType[*archiveReadError](sendErr); ok {
		return sendErr
	}
	if failure == nil && sendErr != nil {
		return errors.Join(runtime.ErrUnavailable, sendErr)
	}
	return failure
}

// archiveReadError is an error of the caller's reader.
type archiveReadError struct{ err error }

func (e *archiveReadError) Error() string { return "read the archive: " + e.err.Error() }
func (e *archiveReadError) Unwrap() error { return e.err }

// sendArchive sends the complete archive. If its reader fails, it resets the
// stream.
func (t *transfer) sendArchive(archive io.Reader) error {
	buf := make([]byte, MaxData)
	for {
		n, readErr := archive.Read(buf)
		if n > 0 {
			if err := t.write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			// CopyIn waits for the response; watchResponse bounds the wait.
			err := t.stream.CloseWrite()
			t.watchResponse()
			return err
		}
		if readErr != nil {
			failure := &archiveReadError{readErr}
			t.stream.Reset(failure)
			t.watchResponse()
			return failure
		}
	}
}

func (t *transfer) write(b []byte) error {
	defer t.startWatchdog().Stop()
	_, err := t.stream.Write(b)
	return err
}

// watchResponse starts the timeout for the program's response.
func (t *transfer) watchResponse() {
	timer := t.startWatchdog()
	go func() { // ends with the transfer
		<-t.closed
		timer.Stop()
	}()
}

// CopyOut implements runtime.Files.CopyOut.
func (s *Session) CopyOut(ctx context.Context, dir string) (io.ReadCloser, error) {
	t, err := s.startTransfer(ctx, "copy out", Request{Op: OpTar, Paths: []string{dir}, Streams: 1})
	if err != nil {
		return nil, err
	}
	a := &archive{transfer: t}
	// Even an empty archive has an end marker. If no byte arrives, there is no
	// archive, and the caller gets the error here, such as a missing directory.
	if err := a.waitReadable(); err != nil {
		err = a.endError(err)
		a.abort()
		return nil, err
	}
	return a, nil
}

// archive is a tar stream from a container.
type archive struct {
	*transfer
	readErr error // returned by every further Read
}

func (a *archive) Read(p []byte) (int, error) {
	if a.readErr != nil {
		return 0, a.readErr
	}
	if err := a.waitReadable(); err != nil {
		a.readErr = a.endError(err)
		return 0, a.readErr
	}
	return a.stream.Read(p)
}

// waitReadable waits for bytes.
func (a *archive) waitReadable() error {
	defer a.startWatchdog().Stop()
	return a.stream.WaitReadable()
}

// endError returns io.EOF for the end of the stream only if the program
// confirms that it was the end of the archive.
func (a *archive) endError(err error) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	complete := errors.Is(err, io.EOF)
	if !complete && !errors.Is(err, errRequestEnded) && !errors.Is(err, errConnLost) {
		return err // the stream was reset with this reason
	}
	ev, err := a.nextEvent()
	if err := a.result(ev, err); err != nil {
		return err
	}
	if !complete {
		return errors.Join(runtime.ErrUnavailable, errTruncated)
	}
	return io.EOF
}

var errTruncated = errors.New("archive truncated")

// Close discards what was not read.
func (a *archive) Close() error {
	a.abort()
	return nil
}
