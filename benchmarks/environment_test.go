package benchmarks

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/process"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// BenchmarkEnvironment measures, in turn, a claim of an idle container, the same
// with an environment, for which the main process is restarted, and a claim for
// which a container is created, as where an environment is fixed at its creation.
func BenchmarkEnvironment(b *testing.B) {
	b.Run("docker", func(b *testing.B) {
		rt, image := connectDocker(b)
		benchEnvironment(b, rt, workloadFile(image, 0, 2, 6))
	})
	b.Run("process", func(b *testing.B) {
		dir, err := os.MkdirTemp("", "hostler-bench-")
		require.NoError(b, err)
		defer os.RemoveAll(dir)
		require.NoError(b, os.Chmod(dir, 0o711))
		program, err := os.ReadFile(runtimetest.BuildTestprog(b))
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(dir+"/box", program, 0o755))
		rt, err := process.New(process.Options{Dir: dir + "/data", ShimPath: runtimetest.BuildShim(b), Secret: []byte("of the benchmarks")})
		require.NoError(b, err)
		defer func() { require.NoError(b, rt.Close()) }()
		benchEnvironment(b, rt, strings.Replace(workloadFile("none", 0, 2, 6), "/box", dir+"/box", 1))
	})
}

// benchEnvironment measures the claims of a backend.
func benchEnvironment(b *testing.B, rt runtime.Runtime, source string) {
	b.Helper()
	h := flowtest.NewOn(b, rt)
	defer drainPool(b, h)
	h.Apply(source)
	cold := strings.Replace(strings.Replace(source, "id: w", "id: cold", 1), "min_idle: 2", "min_idle: 0", 1)
	h.Apply(cold)
	requests := []claim.Request{
		{Workload: "w"},
		{Workload: "w", Environment: map[string]string{"TOKEN": strings.Repeat("v", 100), "MODE": "fast"}},
		{Workload: "cold"},
	}
	durations := make([][]time.Duration, len(requests))
	for b.Loop() {
		for i, r := range requests {
			h.AwaitIdle("w", 2)
			r.Tenant, r.Wait = newTenant(), time.Minute
			start := time.Now()
			c, _, err := h.Claims.Claim(b.Context(), r)
			durations[i] = append(durations[i], time.Since(start))
			require.NoError(b, err)
			releaseAndDiscard(b, h, c)
		}
	}
	_, err := h.Pools.Drain(context.Background(), "cold")
	require.NoError(b, err)
	for i, name := range []string{"plain", "environment", "created"} {
		b.ReportMetric(ms(quantile(durations[i], .5)), name+"-p50-ms")
		b.ReportMetric(ms(quantile(durations[i], .95)), name+"-p95-ms")
	}
	b.ReportMetric(float64(quantile(durations[2], .5))/float64(quantile(durations[1], .5)), "created/environment")
	b.ReportMetric(0, "ns/op")
}
