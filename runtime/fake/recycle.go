package fake

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/runtime"
)

// RecordBaseline ends every process, records the state of a container's files, and
// runs the main process again.
func (rt *Runtime) RecordBaseline(ctx context.Context, id string, fence int64) error {
	return rt.do(ctx, Call{Op: "baseline", ID: id}, func(c *container) error {
		if err := c.recordBaseline(fence); err != nil {
			return err
		}
		return c.start(rt)
	})
}

func (c *container) recordBaseline(fence int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != runtime.Running {
		return runtime.ErrNotRunning
	}
	if err := c.checkFence(fence); err != nil {
		return err
	}
	c.killAll()
	c.hasBaseline, c.baseline = true, c.files.changes
	return nil
}

// Wipe ends every process, empties the mounts, and compares the rest with the
// baseline.
func (rt *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	return rt.do(ctx, Call{Op: "wipe", ID: id}, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.state != runtime.Running {
			return runtime.ErrNotRunning
		}
		if err := c.checkFence(fence); err != nil {
			return err
		}
		c.killAll()
		c.clearRuns()
		c.files.resetVolumesAndTmpfs()
		if !c.hasBaseline {
			return fmt.Errorf("%w: it has no baseline", runtime.ErrWipeUnverified)
		}
		if c.baseline != c.files.changes {
			return fmt.Errorf("%w: %s was changed", runtime.ErrWipeUnverified, c.files.changed)
		}
		c.log.markWiped()
		return nil
	})
}
