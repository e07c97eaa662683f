package shim

import (
	"context"
	"io"
	"net"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkIdleSessions opens a thousand sessions whose other ends are in
// memory, and tells what each costs the server while nothing happens on it.
// The pipe that stands for the connection is counted in.
func BenchmarkIdleSessions(b *testing.B) {
	const count = 1000
	b.ReportAllocs()
	for b.Loop() {
		heap, stacks, goroutines := inUse()
		sessions := make([]*Session, count)
		for i := range sessions {
			sessions[i] = newSession("c", Options{Secret: secret, Dial: welcoming})
			require.NoError(b, sessions[i].Open(b.Context()))
		}
		h, s, g := inUse()
		b.ReportMetric(float64(h-heap)/count, "heap-B/session")
		b.ReportMetric(float64(s-stacks)/count, "stack-B/session")
		b.ReportMetric(float64(g-goroutines)/count, "goroutines/session")
		for _, s := range sessions {
			require.NoError(b, s.Close())
		}
	}
}

// welcoming is a Dial to a peer that greets and is silent from then on.
func welcoming(context.Context, string) (io.ReadWriteCloser, int, error) {
	ours, theirs := net.Pipe()
	go func() { // ends with the greeting
		_, _ = Accept(theirs, Key(secret, "c"), Welcome{Boot: "a", Main: MainRunning})
	}()
	return ours, Version, nil
}

// inUse is what the process holds after what is garbage is gone.
func inUse() (heap, stacks int64, goroutines int) {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse), goruntime.NumGoroutine()
}
