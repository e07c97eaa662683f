package benchmarks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/runtime/shim"
)

// memoryInterval is how often the processes of the shim are looked up. Those that
// end sooner are missed.
const memoryInterval = 20 * time.Millisecond

// watchMemory returns the greatest resident memory in MB of the server during do,
// and of any one process of the shim in its containers.
func (t *stateTenant) watchMemory(b *testing.B, do func()) (server, most float64) {
	b.Helper()
	residentBefore(b, t.pid)
	engineIDs := t.engineIDs(b)
	for _, pid := range t.shims(engineIDs) {
		// A process that has ended is not measured.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200)
	}
	done := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		tick := time.NewTicker(memoryInterval)
		defer tick.Stop()
		for {
			for _, pid := range t.shims(engineIDs) {
				most = max(most, peakOf(pid))
			}
			select {
			case <-done:
				return nil
			case <-tick.C:
			}
		}
	})
	do()
	close(done)
	_ = g.Wait() // it returns nil
	return readStatus(b, t.pid, "VmHWM:"), most
}

// engineIDs returns the ids that Docker has given to the server's containers.
func (s *stateServer) engineIDs(b *testing.B) (ids []string) {
	b.Helper()
	if !s.onDocker {
		return nil
	}
	all, err := s.Containers(b.Context(), client.ContainerFilter{Workload: "kept"})
	require.NoError(b, err)
	for _, c := range all {
		// One that is being destroyed has none.
		out, _ := exec.CommandContext(b.Context(), "docker", "inspect", "-f", "{{.Id}}", "hostler-"+c.ID).Output()
		if id := strings.TrimSpace(string(out)); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// shims returns the processes of the shim: on Docker those in the containers with
// these ids.
func (s *stateServer) shims(engineIDs []string) (pids []int) {
	entries, _ := os.ReadDir("/proc") // without it there are none
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		program, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err != nil {
			continue // it has ended, or is a thread of the kernel
		}
		ours := program == filepath.Join(filepath.Dir(s.program), "hostler-shim")
		if s.onDocker && program == shim.Mount+"/bin/shim" {
			cgroup, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup")) // empty if it has ended
			ours = slices.ContainsFunc(engineIDs, func(id string) bool { return strings.Contains(string(cgroup), id) })
		}
		if ours {
			pids = append(pids, pid)
		}
	}
	return pids
}

// peakOf returns the greatest resident memory of a process in MB, or 0 once it
// has ended.
func peakOf(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // empty if it has ended
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	if !found {
		return 0
	}
	kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64) // the kernel writes a number
	return kib * 1024 / 1e6
}
