package soak

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tally counts what happened, for the summary.
type tally struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (y *tally) add(what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[what]++
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(y.counts)) {
		fmt.Fprintf(&b, "\n  %6d  %s", y.counts[what], what)
	}
	return b.String()
}

// usage is what this process takes when nothing is going on.
type usage struct {
	heap, resident, goroutines, files int // bytes, bytes
}

func (u usage) String() string {
	return fmt.Sprintf("heap %.1f MiB, resident %.1f MiB, %d goroutines, %d files",
		float64(u.heap)/(1<<20), float64(u.resident)/(1<<20), u.goroutines, u.files)
}

// measure looks when all that is not in use is given back to the system. The
// second collection frees what finalizers held.
func measure(t *testing.T) usage {
	t.Helper()
	goruntime.GC()
	debug.FreeOSMemory()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	files, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	var pages int
	statm, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(statm), "%d %d", new(int), &pages)
	require.NoError(t, err)
	return usage{int(m.HeapAlloc), pages * os.Getpagesize(), goruntime.NumGoroutine(), len(files)}
}

// How much more may be taken at the end than after a quarter of the time: a
// leak for each claim or container would be far above it in a long soak, and
// what is kept for use, such as connections, is below it in a short one. The
// database keeps pages outside the heap: its caches have room for 32 MiB.
const (
	heapSlack     = 6 << 20
	residentSlack = 64 << 20
	countSlack    = 16
)

// flat says whether requireFlat would be content.
func flat(early, late usage) bool {
	return late.heap <= early.heap+early.heap/5+heapSlack && late.resident <= early.resident+residentSlack &&
		late.goroutines <= early.goroutines+countSlack && late.files <= early.files+countSlack
}

// requireFlat compares two moments at which nothing was going on.
func requireFlat(t *testing.T, early, late usage) {
	t.Helper()
	require.LessOrEqual(t, late.heap, early.heap+early.heap/5+heapSlack, "bytes on the heap, after %d", early.heap)
	require.LessOrEqual(t, late.resident, early.resident+residentSlack, "bytes resident, after %d", early.resident)
	require.LessOrEqual(t, late.goroutines, early.goroutines+countSlack, "goroutines")
	require.LessOrEqual(t, late.files, early.files+countSlack, "open files")
}
