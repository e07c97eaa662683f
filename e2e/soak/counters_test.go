package soak

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// counters counts events for the summary.
type counters struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (y *counters) add(format string, args ...any) { y.addN(1, fmt.Sprintf(format, args...)) }

func (y *counters) addN(n int, what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[what] += n
}

func (y *counters) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(y.counts)) {
		fmt.Fprintf(&b, "\n  %6d  %s", y.counts[what], what)
	}
	return b.String()
}

// usage is the resource usage of an idle server.
type usage struct {
	heap, resident, goroutines, files int // bytes, bytes
}

func (u usage) String() string {
	return fmt.Sprintf("heap %.1f MiB, resident %.1f MiB, %d goroutines, %d files",
		float64(u.heap)/(1<<20), float64(u.resident)/(1<<20), u.goroutines, u.files)
}

// measure reads the usage from the server's metrics.
func (v *server) measure(t *testing.T) usage {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.address()+"/metrics", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	values := map[string]int{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = int(value)
		}
	}
	u := usage{
		values["go_memstats_heap_alloc_bytes"], values["process_resident_memory_bytes"], values["go_goroutines"], values["process_open_fds"],
	}
	require.NotZero(t, min(u.heap, u.resident, u.goroutines, u.files), "%+v", u)
	return u
}

// The allowed growth of the usage between the first quarter and the end. A leak
// per claim or container is far above it in a long soak, and reused resources,
// such as connections, are below it in a short one. The database keeps pages
// outside the heap: its caches hold up to 32 MiB.
const (
	heapSlack     = 24 << 20 // includes garbage
	residentSlack = 96 << 20
	countSlack    = 16
)

// isFlat reports whether requireFlat would pass.
func isFlat(early, late usage) bool {
	return late.heap <= early.heap+heapSlack && late.resident <= early.resident+residentSlack &&
		late.goroutines <= early.goroutines+countSlack && late.files <= early.files+countSlack
}

// requireFlat checks that the usage has not grown between two idle moments.
func requireFlat(t *testing.T, early, late usage) {
	t.Helper()
	require.LessOrEqual(t, late.heap, early.heap+heapSlack, "bytes on the heap, after %d", early.heap)
	require.LessOrEqual(t, late.resident, early.resident+residentSlack, "bytes resident, after %d", early.resident)
	require.LessOrEqual(t, late.goroutines, early.goroutines+countSlack, "goroutines")
	require.LessOrEqual(t, late.files, early.files+countSlack, "open files")
}
