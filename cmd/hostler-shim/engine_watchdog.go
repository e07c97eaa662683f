package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// engineCheckInterval is how often init looks for processes of the engine that do
// not get on with entering the container. One that is seen twice is ended.
const engineCheckInterval = 30 * time.Second

// engineNamePrefix begins the name that a process of runc has until it runs the
// program that it was started for.
var engineNamePrefix = []byte("runc:[")

// engineWatchdog knows the processes of the engine that were entering the container
// when it last looked. The engine's runtime reads /etc/passwd and /etc/group in
// the container to start a program there. A tenant that puts a terminal or a
// FIFO in their place blocks it without end, and with it every call of the
// engine about the container, also those that stop and remove it.
type engineWatchdog struct {
	seen map[proctree.ID]bool
}

// run looks from time to time, as long as the container lives.
func (e *engineWatchdog) run() {
	for range time.Tick(engineCheckInterval) {
		all, err := proctree.Scan()
		if err != nil {
			continue // out of descriptors or memory: next time
		}
		for _, id := range e.stuck(all, processName) {
			id.Signal(unix.SIGKILL)
		}
	}
}

// stuck returns the processes that are entering since the last call or longer.
func (e *engineWatchdog) stuck(all []proctree.Process, name func(pid int) []byte) []proctree.ID {
	now := make(map[proctree.ID]bool)
	var stuck []proctree.ID
	for _, p := range all {
		if p.Parent != 0 || p.PID == 1 || !bytes.HasPrefix(name(p.PID), engineNamePrefix) {
			continue // no process in a container has a parent outside of it but those that have entered
		}
		if e.seen[p.ID] {
			stuck = append(stuck, p.ID)
		}
		now[p.ID] = true
	}
	e.seen = now
	return stuck
}

// processName is what the kernel calls a process; nil when it has ended.
func processName(pid int) []byte {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return nil
	}
	return name
}
