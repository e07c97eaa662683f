// Package benchmarks measures Hostler as its users meet it: whole claims on a
// real engine, beside what the engine itself offers, in one run. See README.md
// for how the figures were made and the raw results beside it.
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
	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/internal/required"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// burst is how many tenants come at once.
const burst = 20

// BenchmarkWarmClaim is a claim of a fresh idle container on Docker with 0, 1
// and 3 post_claim hooks: one after another, with the pool full before each.
func BenchmarkWarmClaim(b *testing.B) {
	rt, image := engine(b)
	for _, hooks := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("hooks=%d", hooks), func(b *testing.B) { warm(b, rt, image, hooks) })
	}
}

// warm measures claims of one after the other.
func warm(b *testing.B, rt runtime.Runtime, image string, hooks int) {
	b.Helper()
	y := flowtest.On(b, rt)
	defer empty(b, y)
	y.Apply(file(image, hooks, 2, 6, "echo", "hi"))
	y.Idle("w", 2)
	var took, points []time.Duration
	for b.Loop() {
		b.StopTimer()
		y.Idle("w", 2)
		b.StartTimer()
		begin := time.Now()
		c := y.Claim("w", tenant())
		took = append(took, time.Since(begin))
		points = append(points, time.Duration(c.Timings["post_claim"]*float64(time.Millisecond)))
		b.StopTimer()
		discard(b, y, c)
		b.StartTimer()
	}
	report(b, took)
	b.ReportMetric(ms(quantile(points, .5)), "post_claim-p50-ms")
}

// BenchmarkBurst is twenty tenants at once on twenty idle containers, beside
// one claim alone in the same run: with a hook that computes and with one that
// waits, as one that asks another service does. What the machine itself takes
// for twenty at once is beside them: bare processes of the same commands.
func BenchmarkBurst(b *testing.B) {
	rt, image := engine(b)
	for _, hook := range [][]string{{"echo", "hi"}, {"pause", "20"}} {
		b.Run("hook="+hook[0], func(b *testing.B) { crowd(b, rt, image, burst, hook...) })
	}
}

// crowd measures a burst of tenants on so many containers that are ready.
func crowd(b *testing.B, rt runtime.Runtime, image string, ready int, hook ...string) {
	b.Helper()
	y := flowtest.On(b, rt)
	defer empty(b, y)
	y.Apply(file(image, 1, ready, ready+burst+4, hook...))
	var alone, together, bareAlone, bare []time.Duration
	for b.Loop() {
		b.StopTimer()
		y.Idle("w", ready)
		var one claim.Claim
		alone = append(alone, atOnce(b, 1, func(int) (err error) { one, err = ask(b, y); return err })...)
		bareAlone = append(bareAlone, atOnce(b, 1, func(int) error { return fork(b, hook) })...)
		bare = append(bare, atOnce(b, burst, func(int) error { return fork(b, hook) })...)
		y.Idle("w", ready)
		claims := make([]claim.Claim, burst)
		b.StartTimer()
		took := atOnce(b, burst, func(i int) (err error) { claims[i], err = ask(b, y); return err })
		b.StopTimer()
		together = append(together, took...)
		discard(b, y, one)
		for _, c := range claims {
			discard(b, y, c)
		}
		b.StartTimer()
	}
	report(b, together)
	b.ReportMetric(ms(quantile(alone, .5)), "alone-p50-ms")
	b.ReportMetric(ratio(together, alone), "burst-p95/alone-p50")
	b.ReportMetric(ratio(bare, bareAlone), "bare-p95/bare-p50")
}

// ratio is the slow end of many against the middle of one.
func ratio(many, one []time.Duration) float64 {
	return float64(quantile(many, .95)) / float64(quantile(one, .5))
}

// atOnce does something so many times at once, and tells how long each took.
func atOnce(b *testing.B, times int, do func(i int) error) []time.Duration {
	b.Helper()
	took := make([]time.Duration, times)
	var g errgroup.Group
	for i := range times {
		g.Go(func() error {
			begin := time.Now()
			err := do(i)
			took[i] = time.Since(begin)
			return err
		})
	}
	require.NoError(b, g.Wait())
	return took
}

// ask claims for somebody new.
func ask(b *testing.B, y *flowtest.Yard) (claim.Claim, error) {
	c, _, err := y.Claims.Claim(b.Context(), claim.Request{Workload: "w", Tenant: tenant(), Wait: time.Minute})
	return c, err
}

// fork runs a hook's command as a process of this machine.
func fork(b *testing.B, hook []string) error {
	return exec.CommandContext(b.Context(), runtimetest.BuildBox(b), hook...).Run()
}

// file is a workload of the box program with so many hooks of one command.
func file(image string, hooks, idle, most int, command ...string) string {
	text := fmt.Sprintf("id: w\nimage: %s\ncommand: [/box, idle]\npool: { min_idle: %d, max_size: %d, reuse: never }\n", image, idle, most)
	if hooks > 0 {
		text += "hooks:\n  post_claim:\n" + strings.Repeat("    - command: [/box, \""+strings.Join(command, `", "`)+"\"]\n", hooks)
	}
	return text
}

func tenant() string { return "t-" + uuid.NewString() }

// discard gives a claim back and its container up.
func discard(b *testing.B, y *flowtest.Yard, c claim.Claim) {
	b.Helper()
	_, err := y.Releases.Release(b.Context(), c.ID, release.Request{Discard: true})
	require.NoError(b, err)
}

// empty ends a pool.
func empty(b *testing.B, y *flowtest.Yard) {
	b.Helper()
	_, err := y.Pools.Drain(context.Background(), "w")
	require.NoError(b, err)
	y.Idle("w", 0)
}

// report prints the distribution of what was measured.
func report(b *testing.B, took []time.Duration) {
	b.Helper()
	for _, q := range []float64{.5, .95, .99} {
		b.ReportMetric(ms(quantile(took, q)), fmt.Sprintf("p%d-ms", int(q*100)))
	}
}

func quantile(took []time.Duration, q float64) time.Duration {
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// opened is the engine's backend, once a benchmark has needed it.
var opened *docker.Runtime

// image is what the benchmarks' containers run.
var image = "hostler-bench:" + uuid.NewString()[:8]

// engine connects to the engine, or skips.
func engine(b *testing.B) (*docker.Runtime, string) {
	b.Helper()
	if opened != nil {
		return opened, image
	}
	rt, err := docker.New(b.Context(), docker.Options{
		Instance: "bench-" + uuid.NewString()[:8], Secret: []byte("of the benchmarks"), ShimPath: runtimetest.BuildShim(b),
	})
	require.NoError(b, err)
	if err := rt.Ping(b.Context()); err != nil {
		required.Missing(b, "docker", "no Docker engine answers: %v", err)
	}
	rootfs, err := clustertest.Pack(map[string]string{"box": runtimetest.BuildBox(b)})
	require.NoError(b, err)
	require.NoError(b, rt.Import(b.Context(), image, bytes.NewReader(rootfs)))
	opened = rt
	cleaners = append(cleaners, func(ctx context.Context) error { return rt.Purge(ctx, image) })
	return rt, image
}

// cleaners are what is called when all benchmarks have ended.
var cleaners []func(context.Context) error

func TestMain(m *testing.M) {
	code := m.Run()
	for _, clean := range cleaners {
		if err := clean(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "clean up after the benchmarks:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
