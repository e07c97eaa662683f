package fake

import (
	"context"
	"time"

	"github.com/hostler/hostler/runtime"
)

// stop asks the main process to exit and waits until it has, up to the rest of
// the grace period.
func (c *container) stop(ctx context.Context) error {
	c.mu.Lock()
	main := c.main
	if main == nil || c.spec.StopGracePeriod <= 0 {
		c.mu.Unlock()
		return nil
	}
	first := c.stopAt.IsZero()
	if first {
		c.stopAt = time.Now()
	}
	timer := time.NewTimer(time.Until(c.stopAt.Add(c.spec.StopGracePeriod)))
	defer timer.Stop()
	c.mu.Unlock()
	if first {
		c.signal(main, signalByNumber(runtime.StopSignal(c.spec.StopSignal)))
	}
	select {
	case <-main.done:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
