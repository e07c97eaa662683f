package benchmarks

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// memoryInterval is how often the processes of the shim are looked up. Those that
// end sooner are missed.
const memoryInterval = 20 * time.Millisecond

// watchMemory returns the greatest resident memory in MB of the server during do,
// and of any one process of the shim in its containers.
func (t *stateTenant) watchMemory(b *testing.B, do func()) (server, shim float64) {
	b.Helper()
	residentBefore(b, t.pid)
	for _, pid := range t.shims() {
		// A process that has ended is not measured.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200)
	}
	done := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		tick := time.NewTicker(memoryInterval)
		defer tick.Stop()
		for {
			for _, pid := range t.shims() {
				shim = max(shim, peakOf(pid))
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
	return readStatus(b, t.pid, "VmHWM:"), shim
}

// shims returns the processes of the shim that the server's containers have. On
// Docker these are all processes of the program in containers of this machine.
func (t *stateTenant) shims() (pids []int) {
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
		ours := program == filepath.Join(filepath.Dir(t.program), "hostler-shim")
		if t.onDocker {
			cgroup, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup")) // empty if it has ended
			ours = strings.HasSuffix(program, "/hostler-shim") && strings.Contains(string(cgroup), "docker")
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
