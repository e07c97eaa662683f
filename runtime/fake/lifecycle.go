package fake

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/hostler/hostler/runtime"
)

// Create adds a container that does not run yet.
func (rt *Runtime) Create(ctx context.Context, spec runtime.Spec) error {
	return rt.call(ctx, Call{Op: "create", ID: spec.ID}, func() error {
		if err := checkSpec(spec); err != nil {
			return err
		}
		c := newContainer(spec, address(rt.created.Add(1)), rt.Protocols(), rt.events.publish)
		rt.mu.Lock()
		defer rt.mu.Unlock()
		if rt.foreign[spec.ID] {
			return fmt.Errorf("%w: a container of another owner has its name", runtime.ErrInvalid)
		}
		if _, ok := rt.containers[spec.ID]; ok {
			return runtime.ErrExists
		}
		rt.containers[spec.ID] = c
		return nil
	})
}

// Check accepts every spec, unless a trap returns an error.
func (rt *Runtime) Check(ctx context.Context, spec runtime.Spec) error {
	if spec.Isolation.FirstField() == "" && spec.CommandLimits == (runtime.ProcessLimits{}) {
		return nil
	}
	return rt.call(ctx, Call{Op: "check", ID: spec.ID}, func() error { return nil })
}

func checkSpec(spec runtime.Spec) error {
	if spec.ID == "" {
		return fmt.Errorf("%w: it has no id", runtime.ErrInvalid)
	}
	seen := make(map[string]bool, len(spec.Volumes))
	for _, v := range spec.Volumes {
		if !path.IsAbs(v.Target) || path.Clean(v.Target) == "/" || seen[v.Target] {
			return fmt.Errorf("%w: the volume %s cannot be at %q", runtime.ErrInvalid, v.Name, v.Target)
		}
		seen[v.Target] = true
	}
	return nil
}

// Start runs the main process, unless it was started with the same fence.
func (rt *Runtime) Start(ctx context.Context, id string, fence int64) error {
	return rt.do(ctx, Call{Op: "start", ID: id}, func(c *container) error {
		c.mu.Lock()
		running := c.main != nil && c.mainFence == fence && c.fence == fence
		c.mu.Unlock()
		if running {
			return nil
		}
		if err := c.stopAll(fence); err != nil {
			return err
		}
		return c.start(rt)
	})
}

// Restart ends every process and runs the main process again.
func (rt *Runtime) Restart(ctx context.Context, id string, fence int64) error {
	return rt.RestartWith(ctx, id, fence, nil)
}

// Stop ends every process and keeps the files.
func (rt *Runtime) Stop(ctx context.Context, id string, fence int64) error {
	return rt.do(ctx, Call{Op: "stop", ID: id}, func(c *container) error {
		if c.status().State == runtime.Created {
			return runtime.ErrNotRunning
		}
		return c.stopAll(fence)
	})
}

// stopAll ends every process, the main process included, without an exit.
func (c *container) stopAll(fence int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkFence(fence); err != nil {
		return err
	}
	c.killAll()
	if c.state == runtime.Exited {
		c.state = runtime.Running // its files can be read
	}
	return nil
}

// checkFence rejects a fence that is smaller than an earlier one. The caller
// holds the lock.
func (c *container) checkFence(fence int64) error {
	if fence < c.fence {
		return fmt.Errorf("%w: its fence is %d, and not %d", runtime.ErrStaleFence, c.fence, fence)
	}
	c.fence = fence
	return nil
}

// admitCopy is admit for a caller without the lock.
func (c *container) admitCopy(fence int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.admit(fence)
}

// admit is checkFence for a command or a copy, whose fence may be 0. The caller
// holds the lock.
func (c *container) admit(fence int64) error {
	if fence == 0 {
		return nil
	}
	return c.checkFence(fence)
}

// Destroy stops and removes a container.
func (rt *Runtime) Destroy(ctx context.Context, id string) error {
	return rt.call(ctx, Call{Op: "destroy", ID: id}, func() error {
		if c, err := rt.lookup(id); err == nil {
			if _, err := rt.version(c); errors.Is(err, runtime.ErrNewer) {
				return err
			}
			if err := c.stop(ctx); err != nil {
				return err
			}
		}
		rt.remove(id)
		return nil
	})
}

func (rt *Runtime) remove(id string) {
	rt.mu.Lock()
	c, ok := rt.containers[id]
	delete(rt.containers, id)
	rt.mu.Unlock()
	if ok {
		c.remove()
	}
}

// Protocols returns what SetProtocols has set.
func (rt *Runtime) Protocols() runtime.Protocols {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	return rt.protocols
}

// version returns that of a container's record, as runtime.Protocols.Parse does.
func (rt *Runtime) version(c *container) (int, error) {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	version, err := rt.protocols.Parse(c.protocol)
	if err == nil && version != c.program {
		err = fmt.Errorf("%w: its program has the protocol version %d, and its record has %d", runtime.ErrTainted, c.program, version)
	}
	return version, err
}

// status returns what the engine reports of a container.
func (rt *Runtime) status(c *container) runtime.Status {
	s := c.status()
	s.Protocol, _ = rt.version(c) // 0 if it is not a version
	return s
}

// Status describes one container.
func (rt *Runtime) Status(ctx context.Context, id string) (runtime.Status, error) {
	var s runtime.Status
	err := rt.do(ctx, Call{Op: "status", ID: id}, func(c *container) error {
		s = rt.status(c)
		return nil
	})
	if err != nil {
		return runtime.Status{}, err
	}
	return s, nil
}

// Reach returns nil for a container that runs. It is not recorded.
func (rt *Runtime) Reach(ctx context.Context, id string) error {
	call := Call{Op: "reach", ID: id}
	before, after := rt.faults.traps(call)
	return rt.perform(ctx, call, before, after, func() error {
		c, err := rt.lookup(id)
		if err != nil {
			return err
		}
		if c.status().State != runtime.Running {
			return runtime.ErrNotRunning
		}
		return nil
	})
}

// List describes every container.
func (rt *Runtime) List(ctx context.Context) ([]runtime.Status, error) {
	var all []runtime.Status
	err := rt.call(ctx, Call{Op: "list"}, func() error {
		rt.mu.RLock()
		found := make([]*container, 0, len(rt.containers))
		for _, c := range rt.containers {
			found = append(found, c)
		}
		rt.mu.RUnlock()
		all = make([]runtime.Status, len(found))
		for i, c := range found {
			all[i] = rt.status(c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
