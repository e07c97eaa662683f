// Package fake is a runtime entirely in memory: containers are entries of a
// table, their files a small tree, their processes functions in Go.
//
// It promises the same meaning of every call as the real backends: it passes
// the suite of package runtimetest, in which its containers have the test program
// at TestprogPath. It reads no clock other than package time's, and does not poll.
// The only goroutines that outlive a call are those of tenants' commands, up to the
// program's end or Park, of handlers of connections to ports, and of writers of
// trees, up to their Close or Abort. So it may be used
// within testing/synctest, and a container that is never destroyed blocks nothing
// once its tenant's claim has ended.
//
// In addition to the contract it injects faults: a call can be made to fail, to
// block, or to do its work and lose its response (fault.go); a container can exit
// or disappear (control.go); a program can be added (Program). It leaves to the
// real backends images, networks and limits, which it accepts without effect.
package fake

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/hostler/hostler/runtime"
)

var _ runtime.Runtime = (*Runtime)(nil)

// TestprogPath is where every container has the test program.
const TestprogPath = "/bin/box"

// Runtime is an engine in memory and everything in it. Its containers live as
// long as it does: a test of a restarted server continues with the same value.
type Runtime struct {
	faults  faults
	moved   movedCounters
	events  events
	down    atomic.Bool
	created atomic.Uint32 // containers ever, for their addresses

	// mu guards what follows. It is never held together with a container's.
	mu         sync.RWMutex
	containers map[string]*container
	foreign    map[string]bool // names in use by containers of other owners
	programs   map[string]Program
	imageHooks runtime.ImageHooks
	protocols  runtime.Protocols
}

// New returns an engine without containers.
func New() *Runtime {
	rt := &Runtime{
		containers: make(map[string]*container),
		foreign:    make(map[string]bool),
		programs:   maps.Clone(builtin),
		protocols:  runtime.Protocols{Oldest: 1, Current: 2},
	}
	rt.programs["sh"], rt.programs[askPath] = rt.shell, askProgram
	return rt
}

// do makes one call: it is recorded, runs the traps that are set for it, and
// finds its container. The error names the operation and its subject.
func (rt *Runtime) do(ctx context.Context, call Call, action func(*container) error) error {
	return rt.call(ctx, call, func() error {
		c, err := rt.lookup(call.ID)
		if err == nil && call.Op != "status" && call.Op != "logs" {
			_, err = rt.version(c)
		}
		if err != nil {
			return err
		}
		return action(c)
	})
}

// call is do for calls that need no container.
func (rt *Runtime) call(ctx context.Context, call Call, action func() error) error {
	err := context.Cause(ctx)
	if err == nil {
		err = rt.attempt(ctx, call, action)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", call.subject(), err)
	}
	return nil
}

func (rt *Runtime) attempt(ctx context.Context, call Call, action func() error) error {
	before, after := rt.faults.record(call)
	return rt.perform(ctx, call, before, after, action)
}

// perform runs an action and its traps.
func (rt *Runtime) perform(ctx context.Context, call Call, before, after []Trap, action func() error) error {
	for _, f := range before {
		if err := f(ctx, call); err != nil {
			return err
		}
	}
	if rt.down.Load() {
		return runtime.ErrUnavailable
	}
	err := action()
	for _, f := range after {
		if afterErr := f(ctx, call); afterErr != nil {
			return afterErr
		}
	}
	return err
}

func (rt *Runtime) lookup(id string) (*container, error) {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	c, ok := rt.containers[id]
	if !ok {
		return nil, runtime.ErrNotFound
	}
	return c, nil
}

// program returns a registered program by the name in a file or an argv.
func (rt *Runtime) program(name string) (Program, bool) {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	p, ok := rt.programs[name]
	return p, ok
}
