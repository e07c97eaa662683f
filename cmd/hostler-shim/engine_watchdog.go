package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// engineCheckInterval is how often init checks for processes of the engine that
// are stuck while entering the container. A process found by two successive
// checks is killed.
const engineCheckInterval = 30 * time.Second

// engineNamePrefix is the prefix of the name of a runc process before it
// executes its program.
var engineNamePrefix = []byte("runc:[")

// engineWatchdog records the engine's processes that were entering the
// container at the last check. To start a program in the container, the
// engine's runtime reads /etc/passwd and /etc/group there. A tenant that
// replaces them by a terminal or a FIFO blocks the runtime indefinitely, and
// with it every call of the engine for the container, including stop and
// remove.
type engineWatchdog struct {
	seen map[proctree.ID]bool
}

// run checks periodically as long as the container runs.
func (e *engineWatchdog) run() {
	for range time.Tick(engineCheckInterval) {
		all, err := proctree.Scan()
		if err != nil {
			continue // out of descriptors or memory: retry at the next check
		}
		for _, id := range e.stuck(all, processName) {
			id.Signal(unix.SIGKILL)
		}
	}
}

// stuck returns the processes that were already entering at the previous call.
func (e *engineWatchdog) stuck(all []proctree.Process, name func(pid int) []byte) []proctree.ID {
	now := make(map[proctree.ID]bool)
	var stuck []proctree.ID
	for _, p := range all {
		if p.Parent != 0 || p.PID == 1 || !bytes.HasPrefix(name(p.PID), engineNamePrefix) {
			continue // in a container, only a process that has entered it has a parent outside
		}
		if e.seen[p.ID] {
			stuck = append(stuck, p.ID)
		}
		now[p.ID] = true
	}
	e.seen = now
	return stuck
}

// processName returns the kernel's name of a process, or nil if it has exited.
func processName(pid int) []byte {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return nil
	}
	return name
}
