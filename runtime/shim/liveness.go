package shim

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/runtime"
)

// LivenessChecker is a stream whose engine reports the state of the container
// at its other end. Not every engine ends the stream with the container: under
// gVisor, Docker may lose the end of an exec, and its stream stays open
// indefinitely.
type LivenessChecker interface {
	// CheckRunning returns runtime.ErrNotRunning or runtime.ErrNotFound if the
	// container that the stream was opened to has ended, even if it has been
	// restarted since.
	CheckRunning(ctx context.Context) error
}

// While a request is unanswered, the engine is queried first after
// minCheckInterval. The interval doubles each time, up to maxCheckInterval. A
// session without such a request costs the engine nothing.
const (
	minCheckInterval = 5 * time.Second
	maxCheckInterval = time.Minute
	checkTimeout     = 10 * time.Second
)

// scheduleCheck schedules the next check. The caller holds c.mu.
func (c *Conn) scheduleCheck(interval time.Duration) {
	c.livenessTimer = time.AfterFunc(interval, func() { c.runCheck(interval) })
}

// runCheck ends the connection if a request is unanswered and the container has
// ended. An engine that does not answer proves nothing.
func (c *Conn) runCheck(interval time.Duration) {
	if !c.hasPendingRequest() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	err := c.stream.(LivenessChecker).CheckRunning(ctx)
	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrNotFound) {
		c.fail(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scheduleCheck(min(2*interval, maxCheckInterval))
}

// hasPendingRequest reports whether a request is unanswered. If none is, the
// next request schedules the next check.
func (c *Conn) hasPendingRequest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		for _, x := range c.exchanges {
			if x.events != nil && !x.abandoned {
				return true
			}
		}
	}
	c.livenessTimer = nil
	return false
}
