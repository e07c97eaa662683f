package main

import (
	"testing"

	"github.com/hostler/hostler/runtime/shim/proctree"
	"github.com/stretchr/testify/require"
)

// A process of the engine that has been entering the container for a whole
// interval is killed. No other process is: neither one that made progress, nor
// one with a reused PID, nor process 1, nor a tenant's process with such a
// name.
func TestEngineWatchdog(t *testing.T) {
	t.Parallel()
	process := func(pid, parent int, start uint64) proctree.Process {
		return proctree.Process{ID: proctree.ID{PID: pid, Start: start}, Parent: parent}
	}
	names := map[int]string{
		1: "runc:[2:INIT]\n", 7: "runc:[2:INIT]\n", 8: "runc:[2:INIT]\n", 9: "shim\n", 10: "runc:[2:INIT]\n", 11: "runc:[1:CHILD]\n",
	}
	name := func(pid int) []byte { return []byte(names[pid]) }
	all := []proctree.Process{
		process(1, 0, 1), process(7, 0, 100), process(8, 0, 100), process(9, 0, 100), process(10, 1, 100), process(11, 0, 100),
	}
	e := &engineWatchdog{}
	require.Empty(t, e.stuck(all, name), "all may have started just now")
	names[8] = "app\n"
	all[5] = process(11, 0, 200)
	require.Equal(t, []proctree.ID{{PID: 7, Start: 100}}, e.stuck(all, name))
	require.Equal(t, []proctree.ID{{PID: 7, Start: 100}, {PID: 11, Start: 200}}, e.stuck(all, name), "until it has exited")
	require.Empty(t, e.stuck(all[:1], name))
	require.Empty(t, e.stuck(all, name), "exited processes are dropped")
}

// processName returns the kernel's name, and nothing for an exited process.
func TestProcessName(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, processName(1))
	require.Empty(t, processName(1<<30))
}
