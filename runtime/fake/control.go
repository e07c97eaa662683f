package fake

import "github.com/hostler/hostler/runtime"

// SetDown takes the engine away, or gives it back. While it is away every call
// is ErrUnavailable and whoever watches is told so; what runs in containers
// runs on.
func (rt *Runtime) SetDown(down bool) {
	rt.down.Store(down)
	if down {
		rt.events.markLost()
	}
}

// Kill ends a container's main process with SIGKILL, and so the container.
// It does nothing to one that does not run.
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
	if c.main == nil {
		return
	}
	c.oom = oom
	c.terminate(c.main, sigKill)
}

// RemoveExternally removes a container as somebody does who goes behind our back.
func (rt *Runtime) RemoveExternally(id string) { rt.remove(id) }

// AddForeign makes a container of somebody else that bears the name we would give
// to ours of this id. Nothing may ever list, touch or remove it.
func (rt *Runtime) AddForeign(id string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.foreign[id] = true
}

// SetProtocols has the server be of another version from now on. The containers stay
// what they are.
func (rt *Runtime) SetProtocols(p runtime.Protocols) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.protocols = p
}

// SetRecordedProtocol changes what the engine's record of a container has for a protocol
// version.
func (rt *Runtime) SetRecordedProtocol(id, protocol string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if c := rt.containers[id]; c != nil {
		c.protocol = protocol
	}
}

// AddProgram adds a program that can be run by its name, or replaces one. The
// name "*" stands for every program that is found nowhere else. The program
// may be a container's main process as well.
func (rt *Runtime) AddProgram(name string, p Program) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.programs[name] = p
}
