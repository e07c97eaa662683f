package shim

import (
	"context"
	"errors"
	"io"

	"github.com/hostler/hostler/runtime"
)

// PutFiles is runtime.Files.PutFiles, for a directory that can be written. It
// ends with ctx, whatever the archive's reader does.
func (s *Session) PutFiles(ctx context.Context, dir string, archive io.Reader) error {
	t, err := s.transfer(ctx, "put files", OpUntar, dir)
	if err != nil {
		return err
	}
	defer t.close()
	fed := make(chan error, 1)
	// The goroutine ends with the caller's reader, or with its next write after
	// the transfer has ended.
	go func() { fed <- t.feed(archive) }()
	ev, err := t.event()
	failure := t.verdict(ev, err)
	if failure != nil {
		t.stream.Reset(failure)
	}
	select {
	case err = <-fed: // the caller's reader is the caller's again
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return sendOutcome(failure, err)
}

// sendOutcome says what went wrong. What the caller's reader failed with counts
// before what the program made of it. An archive that was not sent to its end is
// never a success: the program may have taken a part for the whole.
func sendOutcome(failure, fed error) error {
	if _, theirs := errors.AsType[*sourceError](fed); theirs {
		return fed
	}
	if failure == nil && fed != nil {
		return errors.Join(runtime.ErrUnavailable, fed)
	}
	return failure
}

// sourceError is a failure of the caller's reader.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "read the archive: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// feed sends all of the archive. When its reader fails, the program is told.
func (t *transfer) feed(archive io.Reader) error {
	buf := make([]byte, MaxData)
	for {
		n, readErr := archive.Read(buf)
		if n > 0 {
			if err := t.send(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			// The answer is waited for elsewhere, and given as long as all else.
			err := t.stream.CloseWrite()
			t.watchAnswer()
			return err
		}
		if readErr != nil {
			failure := &sourceError{readErr}
			t.stream.Reset(failure)
			t.watchAnswer()
			return failure
		}
	}
}

func (t *transfer) send(b []byte) error {
	defer t.watch().Stop()
	_, err := t.stream.Write(b)
	return err
}

// watchAnswer gives the program as long as it may take for its answer.
func (t *transfer) watchAnswer() {
	timer := t.watch()
	go func() { // ends with the transfer
		<-t.closed
		timer.Stop()
	}()
}

// GetFiles is runtime.Files.GetFiles.
func (s *Session) GetFiles(ctx context.Context, dir string) (io.ReadCloser, error) {
	t, err := s.transfer(ctx, "get files", OpTar, dir)
	if err != nil {
		return nil, err
	}
	a := &archive{transfer: t}
	// Even an empty archive has an end mark: without a byte there is none, and
	// the caller learns now that, say, the directory is not there.
	if err := a.await(); err != nil {
		err = a.end(err)
		a.close()
		return nil, err
	}
	return a, nil
}

// archive is a tar stream out of a container.
type archive struct {
	*transfer
	done error // what every further Read returns
}

func (a *archive) Read(p []byte) (int, error) {
	if a.done != nil {
		return 0, a.done
	}
	if err := a.await(); err != nil {
		a.done = a.end(err)
		return 0, a.done
	}
	return a.stream.Read(p)
}

// await waits for bytes.
func (a *archive) await() error {
	defer a.watch().Stop()
	return a.stream.Await()
}

// end turns the end of the stream into io.EOF only when the program says that it
// was the archive's.
func (a *archive) end(err error) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	whole := errors.Is(err, io.EOF)
	if !whole && !errors.Is(err, errAnswered) && !errors.Is(err, errLinkLost) {
		return err // it was broken off, for this reason
	}
	ev, err := a.next()
	if err := a.verdict(ev, err); err != nil {
		return err
	}
	if !whole {
		return errors.Join(runtime.ErrUnavailable, errCutOff)
	}
	return io.EOF
}

var errCutOff = errors.New("the archive was cut off")

// Close gives up what was not read.
func (a *archive) Close() error {
	a.close()
	return nil
}
