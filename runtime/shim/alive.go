package shim

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Checker is a stream whose engine can be asked for the container at its other
// end. Not every engine ends the stream with the container: under gVisor,
// Docker may lose the end of an exec, and its stream stays open for good.
type Checker interface {
	// Running returns runtime.ErrNotRunning or runtime.ErrNotFound when the
	// container that the stream was opened to is over, also when it has been
	// started again since.
	Running(ctx context.Context) error
}

// While a request is unanswered, the engine is asked for the first time after
// firstCheck, and then after twice the time, up to maxCheck. A session without
// such a request costs the engine nothing.
const (
	firstCheck   = 5 * time.Second
	maxCheck     = time.Minute
	checkTimeout = 10 * time.Second
)

// checkLater schedules the next check. l.mu is held.
func (l *link) checkLater(pause time.Duration) {
	l.check = time.AfterFunc(pause, func() { l.checkNow(pause) })
}

// checkNow ends the link if a request is unanswered and the container is over.
// An engine that does not answer proves nothing.
func (l *link) checkNow(pause time.Duration) {
	if !l.isWaited() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	err := l.stream.(Checker).Running(ctx)
	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrNotFound) {
		l.fail(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkLater(min(2*pause, maxCheck))
}

// isWaited reports whether a request is unanswered. If none is, the next one
// schedules the next check.
func (l *link) isWaited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || len(l.waiting) == 0 {
		l.check = nil
		return false
	}
	return true
}
