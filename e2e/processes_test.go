package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// processes returns the directories in /proc of the processes with a marker in
// their arguments.
func processes(t testing.TB, marker string) []string {
	t.Helper()
	return processesWith(t, "cmdline", marker)
}

// processesOf returns the directories in /proc of the processes that belong to a
// data directory.
func processesOf(t testing.TB, data string) []string {
	t.Helper()
	return processesWith(t, "environ", data+"/")
}

func processesWith(t testing.TB, file, marker string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var found []string
	for _, p := range all {
		// A process may end during the scan, or belong to another user.
		b, err := os.ReadFile(filepath.Join(p, file))
		if err == nil && bytes.Contains(b, []byte(marker)) {
			found = append(found, p)
		}
	}
	return found
}

// memory returns a value of a process's status, in KiB: VmRSS is its resident
// memory, VmHWM the peak of it.
func memory(t testing.TB, pid int, name string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "\n"+name+":")
	require.True(t, found)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib
}
