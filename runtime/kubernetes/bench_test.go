package kubernetes_test

import (
	"io"
	"net/url"
	"os/exec"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// podExec runs `box exit 0` as kubectl exec does.
func podExec(b *testing.B, id string, spdy bool) error {
	b.Helper()
	c := needCluster(b)
	target, err := url.Parse(c.Config.Host + pod(id) + "/exec?container=workload&stdout=true&stderr=true&command=/box&command=exit&command=0")
	require.NoError(b, err)
	var executor remotecommand.Executor
	if spdy {
		executor, err = remotecommand.NewSPDYExecutor(c.Config, "POST", target)
	} else {
		executor, err = remotecommand.NewWebSocketExecutor(c.Config, "GET", target.String())
	}
	require.NoError(b, err)
	return executor.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
}

// execHook runs `box exit 0` through the session.
func execHook(b *testing.B, rt *kubernetes.Runtime, id string) error {
	b.Helper()
	_, err := rt.Exec(b.Context(), id, runtime.Command{Args: []string{"/box", "exit", "0"}})
	return err
}

// BenchmarkExec compares, in one run and alternating, a hook through an open
// session with the same command by pods/exec in both its protocols, and as a
// plain process of this machine.
func BenchmarkExec(b *testing.B) {
	rt := openRuntime(b)
	id, testprog := startContainer(b, rt), runtimetest.BuildTestprog(b)
	variants := []struct {
		name string
		run  func() error
	}{
		{"session", func() error { return execHook(b, rt, id) }},
		{"websocket", func() error { return podExec(b, id, false) }},
		{"spdy", func() error { return podExec(b, id, true) }},
		{"host", func() error { return exec.Command(testprog, "exit", "0").Run() }},
	}
	durations := make([][]time.Duration, len(variants))
	for b.Loop() {
		for i, variant := range variants {
			start := time.Now()
			require.NoError(b, variant.run(), variant.name)
			durations[i] = append(durations[i], time.Since(start))
		}
	}
	for i, variant := range variants {
		b.ReportMetric(median(durations[i])*1000, variant.name+"-p50-ms")
	}
	b.ReportMetric(median(durations[1])/median(durations[0]), "websocket/session")
	b.ReportMetric(median(durations[0])/median(durations[3]), "session/host")
}

// BenchmarkLifecycle measures the operations that are rare in a container's life.
func BenchmarkLifecycle(b *testing.B) {
	rt := openRuntime(b)
	steps := []struct {
		name string
		do   func(spec runtime.Spec) error
	}{
		{"create", func(s runtime.Spec) error { return rt.Create(b.Context(), s) }},
		{"start", func(s runtime.Spec) error { return rt.Start(b.Context(), s.ID, 1) }},
		{"restart", func(s runtime.Spec) error { return rt.Restart(b.Context(), s.ID, 1) }},
		{"baseline", func(s runtime.Spec) error { return rt.RecordBaseline(b.Context(), s.ID, 1) }},
		{"wipe", func(s runtime.Spec) error { return rt.Wipe(b.Context(), s.ID, 1) }},
		{"status", func(s runtime.Spec) error { _, err := rt.Status(b.Context(), s.ID); return err }},
		{"destroy", func(s runtime.Spec) error { return rt.Destroy(b.Context(), s.ID) }},
	}
	durations := make([][]time.Duration, len(steps))
	for b.Loop() {
		spec := newSpec(b)
		for i, step := range steps {
			start := time.Now()
			require.NoError(b, step.do(spec), step.name)
			durations[i] = append(durations[i], time.Since(start))
		}
	}
	for i, step := range steps {
		b.ReportMetric(median(durations[i])*1000, step.name+"-p50-ms")
	}
}

// BenchmarkIdleSession measures the memory of the server for an idle session.
func BenchmarkIdleSession(b *testing.B) {
	id := startContainer(b, openRuntime(b))
	var before, after goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	routines := goruntime.NumGoroutine()
	for b.Loop() {
		require.NoError(b, openRuntime(b).Start(b.Context(), id, 1)) // a client each, too
	}
	goruntime.GC()
	goruntime.ReadMemStats(&after)
	n := float64(b.N)
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/n/1000, "heap-kB/session")
	b.ReportMetric((float64(after.StackInuse)-float64(before.StackInuse))/n/1000, "stack-kB/session")
	b.ReportMetric(float64(goruntime.NumGoroutine()-routines)/n, "goroutines/session")
}

// median is in seconds. Other load on the machine affects some rounds, but not
// the median.
func median(durations []time.Duration) float64 {
	slices.Sort(durations)
	return durations[len(durations)/2].Seconds()
}
