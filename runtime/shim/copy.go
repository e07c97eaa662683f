package shim

import (
	"context"
	"errors"
	"io"

	"github.com/hostler/hostler/runtime"
)

// CopyIn is runtime.Files.CopyIn, for a directory that can be written. It
// ends with ctx, whatever the archive's reader does.
func (s *Session) CopyIn(ctx context.Context, dir string, archive io.Reader) error {
	t, err := s.startTransfer(ctx, "put files", OpUntar, dir)
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
	case err = <-sent: // the caller's reader is the caller's again
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return uploadError(failure, err)
}

// uploadError says what went wrong. What the caller's reader failed with counts
// before what the program made of it. An archive that was not sent to its end is
// never a success: the program may have taken a part for the whole.
func uploadError(failure, sendErr error) error {
	if _, ok := errors.AsType[*archiveReadError](sendErr); ok {
		return sendErr
	}
	if failure == nil && sendErr != nil {
		return errors.Join(runtime.ErrUnavailable, sendErr)
	}
	return failure
}

// archiveReadError is a failure of the caller's reader.
type archiveReadError struct{ err error }

func (e *archiveReadError) Error() string { return "read the archive: " + e.err.Error() }
func (e *archiveReadError) Unwrap() error { return e.err }

// sendArchive sends all of the archive. When its reader fails, the program is told.
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
			// The answer is waited for elsewhere, and given as long as all else.
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

// watchResponse gives the program as long as it may take for its answer.
func (t *transfer) watchResponse() {
	timer := t.startWatchdog()
	go func() { // ends with the transfer
		<-t.closed
		timer.Stop()
	}()
}

// CopyOut is runtime.Files.CopyOut.
func (s *Session) CopyOut(ctx context.Context, dir string) (io.ReadCloser, error) {
	t, err := s.startTransfer(ctx, "get files", OpTar, dir)
	if err != nil {
		return nil, err
	}
	a := &archive{transfer: t}
	// Even an empty archive has an end mark: without a byte there is none, and
	// the caller learns now that, say, the directory is not there.
	if err := a.waitReadable(); err != nil {
		err = a.endError(err)
		a.abort()
		return nil, err
	}
	return a, nil
}

// archive is a tar stream out of a container.
type archive struct {
	*transfer
	readErr error // what every further Read returns
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

// endError turns the end of the stream into io.EOF only when the program says that it
// was the archive's.
func (a *archive) endError(err error) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	complete := errors.Is(err, io.EOF)
	if !complete && !errors.Is(err, errRequestEnded) && !errors.Is(err, errConnLost) {
		return err // it was broken off, for this reason
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

var errTruncated = errors.New("the archive was cut off")

// Close gives up what was not read.
func (a *archive) Close() error {
	a.abort()
	return nil
}
