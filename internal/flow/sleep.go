package flow

import (
	"context"
	"time"
)

// Sleep waits for d and returns nil, or returns the context's cause when ctx
// ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
