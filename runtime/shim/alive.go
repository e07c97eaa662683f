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

// checkLater schedules the next check. c.mu is held.
func (c *Conn) checkLater(pause time.Duration) {
	c.check = time.AfterFunc(pause, func() { c.checkNow(pause) })
}

// checkNow ends the link if a request is unanswered and the container is over.
// An engine that does not answer proves nothing.
func (c *Conn) checkNow(pause time.Duration) {
	if !c.isWaited() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	err := c.stream.(Checker).Running(ctx)
	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrNotFound) {
		c.fail(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkLater(min(2*pause, maxCheck))
}

// isWaited reports whether a request is unanswered. If none is, the next one
// schedules the next check.
func (c *Conn) isWaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		for _, x := range c.open {
			if x.events != nil && !x.forgotten {
				return true
			}
		}
	}
	c.check = nil
	return false
}
