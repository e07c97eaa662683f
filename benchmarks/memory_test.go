package benchmarks

import (
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/hostler/hostler/e2e/flowtest"
)

// BenchmarkIdleMemory measures the memory of a server for idle containers: a
// thousand on the in-memory runtime, whose own records are included, and twenty
// on Docker, each with an open session.
func BenchmarkIdleMemory(b *testing.B) {
	b.Run("fake=1000", func(b *testing.B) {
		before := measureUsage()
		h := flowtest.New(b)
		h.Apply(strings.ReplaceAll(workloadFile("box", 1, 1000, 1000, "echo", "hi"), "/box", "box"))
		h.AwaitIdle("w", 1000)
		for b.Loop() { //nolint:revive // the measured state exists already
		}
		reportUsage(b, before, 1000)
		drainPool(b, h)
	})
	b.Run("docker=20", func(b *testing.B) {
		rt, image := connectDocker(b)
		before := measureUsage()
		h := flowtest.NewOn(b, rt)
		h.Apply(workloadFile(image, 1, 20, 20, "echo", "hi"))
		h.AwaitIdle("w", 20)
		for b.Loop() { //nolint:revive // the measured state exists already
		}
		reportUsage(b, before, 20)
		drainPool(b, h)
	})
}

// usage is the memory use of a process.
type usage struct {
	heap       uint64
	goroutines int
}

// measureUsage returns the usage after a garbage collection.
func measureUsage() usage {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	return usage{m.HeapAlloc, goruntime.NumGoroutine()}
}

// reportUsage reports the usage that n containers have added.
func reportUsage(b *testing.B, before usage, n int) {
	b.Helper()
	after := measureUsage()
	added := max(int64(after.heap)-int64(before.heap), 0)
	b.ReportMetric(float64(after.heap)/(1<<20), "heap-MB")
	b.ReportMetric(float64(added)/float64(n)/1024, "KB/container")
	b.ReportMetric(float64(after.goroutines-before.goroutines)/float64(n), "goroutines/container")
}
