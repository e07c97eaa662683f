package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// How long a container may be waited for while its files are read or written.
// A tenant can stop or slow down what packs them. The time that the sink or the
// server takes does not count.
const (
	maxOpening = 3 * time.Minute // before its first byte, with the engine's part
	maxIdle    = time.Minute     // without a byte
	paceWindow = time.Minute     // of waiting, over which the rate is measured
	minRate    = 64 << 10        // bytes a second
	// crowdedRate is the least rate of an upload that has its turn while others
	// wait for theirs.
	crowdedRate = 1 << 20
)

// ErrSource says that a tenant's files could not be kept, or put back, for a
// reason that lies in the container: what the files are, or that the container
// does not give or take them. Neither the sink nor the engine has failed.
var ErrSource = errors.New("the cause lies in the container")

var (
	errIdle = fmt.Errorf("%w: no byte was transferred for %s", ErrSource, maxIdle)
	errSlow = fmt.Errorf("%w: it transfers less than %d KiB a second", ErrSource, minRate>>10)
	// errCrowded is not the container's fault: at another time its rate will do.
	errCrowded = fmt.Errorf("others wait, and the container transfers less than %d KiB a second", crowdedRate>>10)
	errOpening = fmt.Errorf("%w: no byte was transferred within %s", ErrSource, maxOpening)
)

// pace bounds how long a transfer waits for its container. It is used by one
// goroutine at a time.
type pace struct {
	// ctx ends when the container was waited for too long, with the reason.
	ctx     context.Context //nolint:containedctx // of the one transfer
	cancel  context.CancelCauseFunc
	crowded func() bool // may be nil
	limit   *time.Timer // of the wait under way; nil when there is none
	begun   time.Time   // of the wait under way
	open    bool        // a byte was transferred

	waited time.Duration // in this window
	bytes  int64         // in this window
}

// newPace returns the pace of a transfer that has not begun. The caller calls
// stop.
func newPace(ctx context.Context, crowded func() bool) *pace {
	p := &pace{crowded: crowded}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// stop ends the transfer.
func (p *pace) stop() {
	if p.limit != nil {
		p.limit.Stop()
	}
	p.cancel(nil)
}

// wait begins a wait for the container, unless one is under way.
func (p *pace) wait() {
	if p.limit != nil {
		return
	}
	longest, late := maxIdle, errIdle
	if !p.open {
		longest, late = maxOpening, errOpening
	}
	p.begun = time.Now()
	p.limit = time.AfterFunc(longest, func() { p.cancel(late) })
}

// resume ends a wait in which n bytes were transferred, and returns why the
// transfer is cut off, if it is.
func (p *pace) resume(n int) error {
	p.limit.Stop()
	p.limit = nil
	if !p.open {
		p.open = true
		return context.Cause(p.ctx)
	}
	p.waited += time.Since(p.begun)
	p.bytes += int64(n)
	if p.waited >= paceWindow {
		rate := float64(p.bytes) / p.waited.Seconds()
		p.waited, p.bytes = 0, 0
		switch {
		case rate < minRate:
			p.cancel(errSlow)
		case rate < crowdedRate && p.crowded != nil && p.crowded():
			p.cancel(errCrowded)
		}
	}
	return context.Cause(p.ctx)
}

// outcome is the error of a transfer: why it was cut off, if it was.
func (p *pace) outcome(err error) error {
	if err != nil && p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return err
}

// pacedReader reads from a container.
type pacedReader struct {
	from io.Reader
	*pace
}

func (r pacedReader) Read(b []byte) (int, error) {
	r.wait()
	n, err := r.from.Read(b)
	if cut := r.resume(n); cut != nil {
		return n, cut
	}
	return n, err
}

// pacedWriter writes to a container.
type pacedWriter struct {
	to io.Writer
	*pace
}

func (w pacedWriter) Write(b []byte) (int, error) {
	w.wait()
	n, err := w.to.Write(b)
	if cut := w.resume(n); cut != nil {
		return n, cut
	}
	return n, err
}
