package fake

import (
	"cmp"
	"time"

	"github.com/hostler/hostler/runtime"
)

// SetDown makes the engine unavailable, or available again. While it is
// unavailable every call returns ErrUnavailable, Watch included; what runs in
// containers continues.
func (rt *Runtime) SetDown(down bool) {
	rt.down.Store(down)
	if down {
		rt.events.markLost()
		rt.loseConnections()
	}
}

// Kill ends a container's main process with SIGKILL, and so the container; process 1
// after a Stop. It does nothing to one that does not run.
func (rt *Runtime) Kill(id string) { rt.kill(id, false) }

// OOMKill is Kill by the engine's memory limit.
func (rt *Runtime) OOMKill(id string) { rt.kill(id, true) }

func (rt *Runtime) kill(id string, oom bool) {
	c, err := rt.lookup(id)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oom = oom
	switch {
	case c.main != nil:
		c.terminate(c.main, sigKill)
	case c.state == runtime.Running:
		c.handleExit(137)
	}
}

// RemoveExternally removes a container as another program does, bypassing Hostler.
func (rt *Runtime) RemoveExternally(id string) { rt.remove(id) }

// SetCondition has the engine report another condition of a container; empty for
// none. What runs in it continues.
func (rt *Runtime) SetCondition(id string, condition runtime.Condition) {
	c, err := rt.lookup(id)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.condition != condition {
		c.condition = condition
		c.onExit(runtime.Exit{ID: id, Condition: cmp.Or(condition, runtime.Reachable), Time: time.Now()})
	}
}

// AddForeign creates a container of another owner with the name that ours of this
// id would have. No call may ever list, change or remove it.
func (rt *Runtime) AddForeign(id string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.foreign[id] = true
}

// SetProtocols changes the version of the server from now on. The containers do
// not change.
func (rt *Runtime) SetProtocols(p runtime.Protocols) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.protocols = p
}

// SetRecordedProtocol changes the protocol version in the engine's record of a
// container.
func (rt *Runtime) SetRecordedProtocol(id, protocol string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if c := rt.containers[id]; c != nil {
		c.protocol = protocol
	}
}

// AddProgram adds a program that can be run by its name, or replaces one. The
// name "*" stands for every program that is not found otherwise. The program
// may also be a container's main process.
func (rt *Runtime) AddProgram(name string, p Program) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.programs[name] = p
}
