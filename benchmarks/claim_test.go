// Package benchmarks measures Hostler end to end: whole claims on a real
// engine, compared with the engine's own operations in the same run. README.md
// describes how the figures are made; the raw results are in raw/.
package benchmarks

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// burstSize is the number of concurrent tenants.
const burstSize = 20

// BenchmarkWarmClaim measures a claim of a fresh idle container on Docker with
// 0, 1 and 3 post_claim hooks: sequentially, with the pool full before each.
func BenchmarkWarmClaim(b *testing.B) {
	rt, image := connectDocker(b)
	for _, hooks := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("hooks=%d", hooks), func(b *testing.B) { benchWarmClaim(b, rt, image, hooks) })
	}
}

// benchWarmClaim measures sequential claims.
func benchWarmClaim(b *testing.B, rt runtime.Runtime, image string, hooks int) {
	b.Helper()
	h := flowtest.NewOn(b, rt)
	defer drainPool(b, h)
	h.Apply(workloadFile(image, hooks, 2, 6, "echo", "hi"))
	h.AwaitIdle("w", 2)
	var durations, hookTimes []time.Duration
	for b.Loop() {
		b.StopTimer()
		h.AwaitIdle("w", 2)
		b.StartTimer()
		start := time.Now()
		c := h.Claim("w", newTenant())
		durations = append(durations, time.Since(start))
		hookTimes = append(hookTimes, time.Duration(c.Timings["post_claim"]*float64(time.Millisecond)))
		b.StopTimer()
		releaseAndDiscard(b, h, c)
		b.StartTimer()
	}
	report(b, durations)
	b.ReportMetric(ms(quantile(hookTimes, .5)), "post_claim-p50-ms")
}

// BenchmarkBurst measures twenty concurrent tenants on twenty idle containers,
// compared with a single claim in the same run: with a hook that computes and
// one that waits, like one that calls another service. For comparison with the
// limits of the machine it also measures twenty concurrent bare processes of
// the same commands.
func BenchmarkBurst(b *testing.B) {
	rt, image := connectDocker(b)
	for _, hook := range [][]string{{"echo", "hi"}, {"pause", "20"}} {
		b.Run("hook="+hook[0], func(b *testing.B) { benchBurst(b, rt, image, burstSize, hook...) })
	}
}

// benchBurst measures a burst of tenants on the given number of idle
// containers.
func benchBurst(b *testing.B, rt runtime.Runtime, image string, ready int, hook ...string) {
	b.Helper()
	h := flowtest.NewOn(b, rt)
	defer drainPool(b, h)
	h.Apply(workloadFile(image, 1, ready, ready+burstSize+4, hook...))
	var soloTimes, burstTimes, soloProcessTimes, processTimes []time.Duration
	for b.Loop() {
		b.StopTimer()
		h.AwaitIdle("w", ready)
		var soloClaim claim.Claim
		soloTimes = append(soloTimes, concurrently(b, 1, func(int) (err error) { soloClaim, err = claimNew(b, h); return err })...)
		soloProcessTimes = append(soloProcessTimes, concurrently(b, 1, func(int) error { return runOnHost(b, hook) })...)
		processTimes = append(processTimes, concurrently(b, burstSize, func(int) error { return runOnHost(b, hook) })...)
		h.AwaitIdle("w", ready)
		claims := make([]claim.Claim, burstSize)
		b.StartTimer()
		times := concurrently(b, burstSize, func(i int) (err error) { claims[i], err = claimNew(b, h); return err })
		b.StopTimer()
		burstTimes = append(burstTimes, times...)
		releaseAndDiscard(b, h, soloClaim)
		for _, c := range claims {
			releaseAndDiscard(b, h, c)
		}
		b.StartTimer()
	}
	report(b, burstTimes)
	b.ReportMetric(ms(quantile(soloTimes, .5)), "alone-p50-ms")
	b.ReportMetric(ratio(burstTimes, soloTimes), "burst-p95/alone-p50")
	b.ReportMetric(ratio(processTimes, soloProcessTimes), "bare-p95/bare-p50")
}

// ratio returns the p95 of the first divided by the p50 of the second.
func ratio(p95Of, p50Of []time.Duration) float64 {
	return float64(quantile(p95Of, .95)) / float64(quantile(p50Of, .5))
}

// concurrently calls do n times concurrently and returns the durations.
func concurrently(b *testing.B, n int, do func(i int) error) []time.Duration {
	b.Helper()
	durations := make([]time.Duration, n)
	var g errgroup.Group
	for i := range n {
		g.Go(func() error {
			start := time.Now()
			err := do(i)
			durations[i] = time.Since(start)
			return err
		})
	}
	require.NoError(b, g.Wait())
	return durations
}

// claimNew claims for a new tenant.
func claimNew(b *testing.B, h *flowtest.Harness) (claim.Claim, error) {
	c, _, err := h.Claims.Claim(b.Context(), claim.Request{Workload: "w", Tenant: newTenant(), Wait: time.Minute})
	return c, err
}

// runOnHost runs a hook's command as a process of this machine.
func runOnHost(b *testing.B, hook []string) error {
	return exec.CommandContext(b.Context(), runtimetest.BuildTestprog(b), hook...).Run()
}

// workloadFile returns a workload of the test program with equal hooks.
func workloadFile(image string, hooks, idle, maxSize int, command ...string) string {
	text := fmt.Sprintf("id: w\nimage: %s\ncommand: [/box, idle]\npool: { min_idle: %d, max_size: %d, reuse: never }\n", image, idle, maxSize)
	if hooks > 0 {
		text += "hooks:\n  post_claim:\n" + strings.Repeat("    - command: [/box, \""+strings.Join(command, `", "`)+"\"]\n", hooks)
	}
	return text
}

func newTenant() string { return "t-" + uuid.NewString() }

// releaseAndDiscard releases a claim and discards its container.
func releaseAndDiscard(b *testing.B, h *flowtest.Harness, c claim.Claim) {
	b.Helper()
	_, err := h.Releases.Release(b.Context(), c.ID, release.Request{Discard: true})
	require.NoError(b, err)
}

// drainPool drains a pool.
func drainPool(b *testing.B, h *flowtest.Harness) {
	b.Helper()
	_, err := h.Pools.Drain(context.Background(), "w")
	require.NoError(b, err)
	h.AwaitIdle("w", 0)
}

// report reports the distribution of durations.
func report(b *testing.B, durations []time.Duration) {
	b.Helper()
	for _, q := range []float64{.5, .95, .99} {
		b.ReportMetric(ms(quantile(durations, q)), fmt.Sprintf("p%d-ms", int(q*100)))
	}
}

func quantile(durations []time.Duration, q float64) time.Duration {
	slices.Sort(durations)
	return durations[min(int(q*float64(len(durations))), len(durations)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// dockerRuntime is the Docker backend, set by the first benchmark that needs it.
var dockerRuntime *docker.Runtime

// image is the image of the benchmarks' containers.
var image = "hostler-bench:" + uuid.NewString()[:8]

// connectDocker connects to the engine, or skips.
func connectDocker(b *testing.B) (*docker.Runtime, string) {
	b.Helper()
	if dockerRuntime != nil {
		return dockerRuntime, image
	}
	rt, err := docker.New(b.Context(), docker.Options{
		Instance: "bench-" + uuid.NewString()[:8], Secret: []byte("of the benchmarks"), ShimPath: runtimetest.BuildShim(b),
	})
	require.NoError(b, err)
	if err := rt.Ping(b.Context()); err != nil {
		testenv.Skip(b, "docker", "no Docker engine available: %v", err)
	}
	rootfs, err := clustertest.Pack(map[string]string{"box": runtimetest.BuildTestprog(b)})
	require.NoError(b, err)
	require.NoError(b, rt.Import(b.Context(), image, bytes.NewReader(rootfs)))
	dockerRuntime = rt
	cleanups = append(cleanups, func(ctx context.Context) error { return rt.Purge(ctx, image) })
	return rt, image
}

// cleanups are called after all benchmarks.
var cleanups []func(context.Context) error

func TestMain(m *testing.M) {
	code := m.Run()
	for _, cleanup := range cleanups {
		if err := cleanup(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "clean up after the benchmarks:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
