package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits on waiting for a container while its files are read or written. A
// tenant can stop or slow down the process that packs them. The time that the
// sink or the server takes does not count.
const (
	firstByteTimeout = 3 * time.Minute // before its first byte, including the engine's time
	idleTimeout      = time.Minute     // without a byte
	rateWindow       = time.Minute     // of waiting, over which the rate is measured
	minRate          = 64 << 10        // bytes a second
	// contendedRate is the minimum rate of an upload while others wait for memory.
	// One upload at a time may be slower, for maxSlow of waiting for its container:
	// otherwise slow uploads would abort each other indefinitely.
	contendedRate = 1 << 20
	maxSlow       = time.Hour
)

// ErrContainer indicates that a tenant's files could not be uploaded or
// downloaded because of the container: because of the files themselves, or
// because the container does not send or accept them. Neither the sink nor the
// engine has failed.
var ErrContainer = errors.New("caused by the container")

var (
	errIdleTimeout = fmt.Errorf("%w: no byte was transferred for %s", ErrContainer, idleTimeout)
	errTooSlow     = fmt.Errorf("%w: it transfers less than %d KiB a second", ErrContainer, minRate>>10)
	// errContended is not the container's error: at another time its rate is
	// enough.
	errContended   = fmt.Errorf("other uploads wait, and the container transfers less than %d KiB a second", contendedRate>>10)
	errSlowTooLong = fmt.Errorf("%w: other uploads wait, and it has transferred less than %d KiB a second for %s",
		ErrContainer, contendedRate>>10, maxSlow)
	errFirstByteTimeout = fmt.Errorf("%w: no byte was transferred within %s", ErrContainer, firstByteTimeout)
)

// pace bounds how long a transfer waits for its container. It is used by one
// goroutine at a time.
type pace struct {
	// ctx is canceled with the reason when the wait for the container is too
	// long.
	ctx    context.Context //nolint:containedctx // of the one transfer
	cancel context.CancelCauseFunc
	// checkSlow returns why a transfer below contendedRate is aborted, if it is;
	// waited is how long it has waited for its container. It may be nil.
	checkSlow func(waited time.Duration) error
	limit     *time.Timer // of the wait in progress; nil when there is none
	begun     time.Time   // of the wait in progress
	started   bool        // a byte was transferred

	waited time.Duration // in this window
	bytes  int64         // in this window
}

// newPace returns the pace of a transfer that has not begun. The caller calls
// stop.
func newPace(ctx context.Context, checkSlow func(waited time.Duration) error) *pace {
	p := &pace{checkSlow: checkSlow}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// stop releases the resources of the transfer.
func (p *pace) stop() {
	if p.limit != nil {
		p.limit.Stop()
	}
	p.cancel(nil)
}

// beginWait begins a wait for the container, unless one is in progress.
func (p *pace) beginWait() {
	if p.limit != nil {
		return
	}
	limit, late := idleTimeout, errIdleTimeout
	if !p.started {
		limit, late = firstByteTimeout, errFirstByteTimeout
	}
	p.begun = time.Now()
	p.limit = time.AfterFunc(limit, func() { p.cancel(late) })
}

// endWait ends a wait in which n bytes were transferred, and returns the reason
// if the transfer is aborted. Without a wait in progress it returns only the reason:
// one that was ended in a callback of the container's call is not begun again.
func (p *pace) endWait(n int) error {
	if p.limit == nil {
		return context.Cause(p.ctx)
	}
	p.limit.Stop()
	p.limit = nil
	if !p.started {
		p.started = true
		return context.Cause(p.ctx)
	}
	p.waited += time.Since(p.begun)
	p.bytes += int64(n)
	if p.waited >= rateWindow {
		rate, waited := float64(p.bytes)/p.waited.Seconds(), p.waited
		p.waited, p.bytes = 0, 0
		switch {
		case rate < minRate:
			p.cancel(errTooSlow)
		case rate < contendedRate && p.checkSlow != nil:
			if err := p.checkSlow(waited); err != nil {
				p.cancel(err)
			}
		}
	}
	return context.Cause(p.ctx)
}

// result returns the error of a transfer: the reason, if it was aborted.
func (p *pace) result(err error) error {
	if err != nil && p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return err
}
