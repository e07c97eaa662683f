package benchmarks

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// versionWorkloads are the pool configurations of the comparison: a claim of an
// idle container, and one that wipes another tenant's container, with one
// post_claim hook each.
var versionWorkloads = map[string]string{
	"warm":               "pool: { min_idle: 3, max_size: 12, reuse: never }",
	"recycled":           "pool: { min_idle: 1, max_size: 1, reuse: wipe }",
	"recycled-read-only": "pool: { min_idle: 1, max_size: 1, reuse: wipe }\nread_only: true",
}

// BenchmarkVersions compares builds of Hostler, in turn, through the API of one
// server each: HOSTLER_BUILDS lists them as NAME=PATH, separated by commas,
// each with hostler-shim in the same directory.
func BenchmarkVersions(b *testing.B) {
	builds := os.Getenv("HOSTLER_BUILDS")
	if builds == "" {
		b.Skip("HOSTLER_BUILDS names no builds: HOSTLER_BUILDS=before=/a/hostler,after=/b/hostler")
	}
	_, image := connectDocker(b)
	servers := make(map[string]*client.Client)
	for _, build := range strings.Split(builds, ",") {
		name, path, _ := strings.Cut(build, "=")
		servers[name] = startBuild(b, path)
	}
	for workload, poolConfig := range versionWorkloads {
		b.Run(workload, func(b *testing.B) { compareBuilds(b, servers, workload, image, poolConfig) })
	}
	b.Run("hooks", func(b *testing.B) { compareHooks(b, servers, image) })
}

// compareHooks has each server in turn run one hook, and a list of hooks, for a
// tenant that keeps its containers. The difference is the time of the others.
func compareHooks(b *testing.B, servers map[string]*client.Client, image string) {
	b.Helper()
	for _, c := range servers {
		for _, hooks := range []int{1, manyHooks} {
			applyPoint(b, c, image, pointWorkload(hooks), "{ min_idle: 0, max_size: 1, reuse: same_tenant }", hooks)
		}
	}
	durations := make(map[string][]time.Duration)
	for b.Loop() {
		for name, c := range servers {
			took := map[int]time.Duration{}
			for _, hooks := range []int{1, manyHooks} {
				start := time.Now()
				got, _, err := c.Claim(b.Context(), pointWorkload(hooks), "ada", time.Minute)
				require.NoError(b, err)
				if got.Source == client.SourceAffinity {
					took[hooks] = time.Since(start)
				}
				releaseClaim(b, c, got.ID)
			}
			if len(took) == 2 {
				durations[name] = append(durations[name], (took[manyHooks]-took[1])/(manyHooks-1))
			}
		}
	}
	for name, all := range durations {
		b.ReportMetric(ms(quantile(all, .5)), name+"-hook-p50-ms")
		b.ReportMetric(ms(quantile(all, .95)), name+"-hook-p95-ms")
	}
}

// startBuild starts a server on an empty database.
func startBuild(b *testing.B, path string) *client.Client {
	b.Helper()
	return startServer(b, path, "--runtime", "docker").Client
}

// startedServer is a server of a benchmark.
type startedServer struct {
	*client.Client
	program, address string // its executable, and where it listens
	pid              int
}

// startServer starts a server on an empty database with the flags of a runtime.
func startServer(b *testing.B, path string, flags ...string) startedServer {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	address := l.Addr().String()
	require.NoError(b, l.Close())
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	require.NoError(b, err)
	cmd := exec.CommandContext(context.Background(), path, append([]string{"serve", "--data", b.TempDir(), "--listen", address}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // Wait returns the error
		_ = cmd.Wait()
		log.Close()
	})
	c, err := client.New("http://"+address, "")
	require.NoError(b, err)
	require.Eventually(b, func() bool {
		_, err := c.Health(b.Context())
		return err == nil
	}, 30*time.Second, 50*time.Millisecond, "the server of %s must start", path)
	return startedServer{c, path, address, cmd.Process.Pid}
}

// compareBuilds claims and releases once with each server in turn.
func compareBuilds(b *testing.B, servers map[string]*client.Client, workload, image, poolConfig string) {
	b.Helper()
	source := fmt.Sprintf("id: %s\nimage: %s\ncommand: [/box, idle]\nhooks: { post_claim: [{ command: [/box, echo, hi] }] }\n%s\n", workload, image, poolConfig)
	for _, c := range servers {
		_, err := c.Apply(b.Context(), workload, []byte(source))
		require.NoError(b, err)
		defer func() {
			_, err := c.Drain(context.Background(), workload)
			require.NoError(b, err)
			awaitIdle(b, c, workload, 0)
		}()
		awaitIdle(b, c, workload, 1)
		releaseClaim(b, c, newClaim(b, c, workload)) // the first tenant of a container that will be wiped
	}
	durations := make(map[string][]time.Duration)
	for b.Loop() {
		for name, c := range servers {
			b.StopTimer()
			awaitIdle(b, c, workload, 1)
			b.StartTimer()
			start := time.Now()
			id := newClaim(b, c, workload)
			durations[name] = append(durations[name], time.Since(start))
			b.StopTimer()
			releaseClaim(b, c, id)
			b.StartTimer()
		}
	}
	for name := range servers {
		b.ReportMetric(ms(quantile(durations[name], .5)), name+"-p50-ms")
		b.ReportMetric(ms(quantile(durations[name], .95)), name+"-p95-ms")
	}
}

func newClaim(b *testing.B, c *client.Client, workload string) string {
	b.Helper()
	got, _, err := c.Claim(b.Context(), workload, "t-"+uuid.NewString(), time.Minute)
	require.NoError(b, err)
	return got.ID
}

func releaseClaim(b *testing.B, c *client.Client, id string) {
	b.Helper()
	_, err := c.Release(b.Context(), id, false)
	require.NoError(b, err)
}

// awaitIdle waits until count containers are idle, or for 0 until none is left.
func awaitIdle(b *testing.B, c *client.Client, workload string, count int) {
	b.Helper()
	require.Eventually(b, func() bool {
		status, err := c.Pool(context.Background(), workload)
		if err != nil {
			return false
		}
		total := 0
		for _, n := range status.Containers {
			total += n
		}
		return status.Containers[client.ContainerIdle] >= count && (count > 0 || total == 0)
	}, time.Minute, 20*time.Millisecond, "%d idle containers of %s", count, workload)
}
