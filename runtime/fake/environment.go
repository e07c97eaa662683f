package fake

import (
	"context"
	"maps"

	"github.com/hostler/hostler/runtime"
)

// RestartWith is Restart with an environment for the main process.
func (rt *Runtime) RestartWith(ctx context.Context, id string, fence int64, environment map[string]string) error {
	return rt.do(ctx, Call{Op: "restart", ID: id}, func(c *container) error {
		if err := runtime.CheckEnvironment(environment); err != nil {
			return err
		}
		if len(environment) > 0 && c.program < tenantVersion {
			return runtime.ErrUnsupported
		}
		if err := c.stopAll(fence); err != nil {
			return err
		}
		c.mu.Lock()
		c.environment = maps.Clone(environment)
		c.mu.Unlock()
		return c.start(rt)
	})
}

// MainEnvironment returns the environment of a container's main process, or nil
// if there is none.
func (rt *Runtime) MainEnvironment(id string) map[string]string {
	c, err := rt.lookup(id)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.main == nil {
		return nil
	}
	return maps.Clone(c.main.Env)
}

// commandEnvironment returns the environment of a command. The caller holds the
// lock.
func (c *container) commandEnvironment(cmd runtime.TenantCommand) map[string]string {
	if cmd.Internal || len(c.environment) == 0 {
		return cmd.Environment
	}
	merged := maps.Clone(c.environment)
	maps.Copy(merged, cmd.Environment)
	return merged
}
