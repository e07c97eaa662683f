package fake

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/runtime"
)

// Seal ends every process, remembers the state of a container's files, and
// runs the main process anew.
func (rt *Runtime) Seal(ctx context.Context, id string, fence int64) error {
	return rt.do(ctx, Call{Op: "baseline", ID: id}, func(c *container) error {
		if err := c.sealFiles(fence); err != nil {
			return err
		}
		return c.start(rt)
	})
}

func (c *container) sealFiles(fence int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != runtime.Running {
		return runtime.ErrNotRunning
	}
	if err := c.admit(fence); err != nil {
		return err
	}
	c.killAll()
	c.sealed, c.seal = true, c.files.changes
	return nil
}

// Wipe ends every process, empties what is mounted, and compares the rest with
// what was sealed.
func (rt *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	return rt.do(ctx, Call{Op: "wipe", ID: id}, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.state != runtime.Running {
			return runtime.ErrNotRunning
		}
		if err := c.admit(fence); err != nil {
			return err
		}
		c.killAll()
		c.forgetRuns()
		c.files.emptyMounts()
		if !c.sealed {
			return fmt.Errorf("%w: it was never sealed", runtime.ErrNotClean)
		}
		if c.seal != c.files.changes {
			return fmt.Errorf("%w: %s was changed", runtime.ErrNotClean, c.files.changed)
		}
		c.log.mark()
		return nil
	})
}
