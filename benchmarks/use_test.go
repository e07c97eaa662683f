package benchmarks

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
)

// usedClaim is an active claim of a server of this tree.
type usedClaim struct {
	startedServer
	claim, container string // the container's name at the engine
}

// newUsedClaim starts a server on Docker and claims a container whose main process is
// box with arguments.
func newUsedClaim(b *testing.B, args string) usedClaim {
	b.Helper()
	return newUsedClaims(b, args, 1)[0]
}

// newUsedClaims is newUsedClaim for several containers of one server.
func newUsedClaims(b *testing.B, args string, count int) []usedClaim {
	b.Helper()
	_, image := connectDocker(b)
	return claimUsed(b, startServer(b, buildServer(b), "--runtime", "docker"), image, args, count)
}

// claimUsed claims containers whose main process is box with arguments. What is
// limited is far above what the benchmarks need.
func claimUsed(b *testing.B, s startedServer, image, args string, count int) (used []usedClaim) {
	b.Helper()
	source := fmt.Sprintf("id: used\nimage: %s\ncommand: %s\npool: { min_idle: 0, max_size: %d }\n"+
		"deploy: { resources: { limits: { cpus: 2, memory: 1g } } }\n", image, args, count)
	_, err := s.Apply(b.Context(), "used", []byte(source))
	require.NoError(b, err)
	b.Cleanup(func() {
		_, err := s.Drain(context.Background(), "used")
		require.NoError(b, err)
		for _, u := range used {
			_, err := s.Release(context.Background(), u.claim, true)
			require.NoError(b, err)
		}
		awaitIdle(b, s.Client, "used", 0)
	})
	for i := range count { // a tenant has one claim of a workload
		got, _, err := s.Claim(b.Context(), "used", fmt.Sprintf("ada-%d", i), time.Minute)
		require.NoError(b, err)
		used = append(used, usedClaim{s, got.ID, "hostler-" + got.Container})
	}
	return used
}

// run runs a command through the API.
func (u usedClaim) run(ctx context.Context) error {
	done, err := u.Exec(ctx, u.claim, client.CommandRequest{Command: []string{"/box", "echo", "hi"}})
	if err == nil && done.ExitCode != 0 {
		err = fmt.Errorf("the command ended with %d", done.ExitCode)
	}
	return err
}

// line runs the command line of this tree.
func (u usedClaim) line(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, u.program, args...)
	cmd.Env = append(os.Environ(), "HOSTLER_SERVER=http://"+u.address)
	return cmd
}

// BenchmarkExec compares a command through the API with the engine's exec of the same
// command in the same container, in turn, and the command lines of both; then both
// with 16 callers at once.
func BenchmarkExec(b *testing.B) {
	u := newUsedClaim(b, "[/box, idle]")
	b.Run("one", func(b *testing.B) {
		var api, engine, line, dockerLine []time.Duration
		for b.Loop() {
			api = append(api, timed(b, func() error { return u.run(b.Context()) }))
			engine = append(engine, timed(b, func() error { return engineExec(b.Context(), u.container, "/box", "echo", "hi") }))
			line = append(line, timed(b, func() error { return u.line(b.Context(), "exec", u.claim, "--", "/box", "echo", "hi").Run() }))
			if docker, err := exec.LookPath("docker"); err == nil {
				dockerLine = append(dockerLine, timed(b, func() error {
					return exec.CommandContext(b.Context(), docker, "exec", u.container, "/box", "echo", "hi").Run()
				}))
			}
		}
		reportComparison(b, "exec", api, engine)
		reportComparison(b, "cli", line, dockerLine)
	})
	const callers = 16
	b.Run("load", func(b *testing.B) {
		for name, call := range map[string]func() error{
			"api":    func() error { return u.run(b.Context()) },
			"engine": func() error { return engineExec(b.Context(), u.container, "/box", "echo", "hi") },
		} {
			begin := time.Now()
			var g errgroup.Group
			for range callers {
				g.Go(func() error {
					for range 10 {
						if err := call(); err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(b, g.Wait(), name)
			b.ReportMetric(callers*10/time.Since(begin).Seconds(), name+"/s")
		}
	})
}

// timed returns how long do takes.
func timed(b *testing.B, do func() error) time.Duration {
	b.Helper()
	begin := time.Now()
	require.NoError(b, do())
	return time.Since(begin)
}

// reportComparison reports the medians of what is ours and of the engine's, and how
// many times ours the engine's is.
func reportComparison(b *testing.B, name string, ours, engines []time.Duration) {
	b.Helper()
	b.ReportMetric(ms(quantile(ours, .5)), name+"-p50-ms")
	if len(engines) > 0 {
		b.ReportMetric(ms(quantile(engines, .5)), name+"-docker-p50-ms")
		b.ReportMetric(float64(quantile(engines, .5))/float64(quantile(ours, .5)), name+"-docker/hostler")
	}
}

// transferSize returns the bytes that are moved: HOSTLER_BENCH_MIB, by default 256.
func transferSize(b *testing.B) int {
	b.Helper()
	n := 256
	if text := os.Getenv("HOSTLER_BENCH_MIB"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	return n << 20
}

// reportRate reports a rate in MiB/s.
func reportRate(b *testing.B, name string, size int, took time.Duration) {
	b.Helper()
	b.ReportMetric(float64(size)/(1<<20)/took.Seconds(), name+"-MiB/s")
}

// BenchmarkExecOutput compares the output of a command through the API and through
// the command line with docker exec.
func BenchmarkExecOutput(b *testing.B) {
	u := newUsedClaim(b, "[/box, idle]")
	size := transferSize(b)
	args := []string{"/box", "repeat", strings.Repeat("x", 1023) + "\n", strconv.Itoa(size >> 10)}
	for b.Loop() {
		reportRate(b, "client", size, timed(b, func() error {
			cmd, err := u.StartCommand(b.Context(), u.claim, client.CommandRequest{Command: args})
			if err != nil {
				return err
			}
			_, err = cmd.Wait(b.Context(), io.Discard, io.Discard)
			return err
		}))
		reportRate(b, "cli", size, timed(b, u.line(b.Context(), append([]string{"exec", u.claim, "--"}, args...)...).Run))
		docker := exec.CommandContext(b.Context(), "docker", append([]string{"exec", u.container}, args...)...)
		reportRate(b, "docker-exec", size, timed(b, docker.Run))
	}
}

// BenchmarkFiles compares a file into a container and out of it with docker cp, and
// with a copy on this machine.
func BenchmarkFiles(b *testing.B) {
	u := newUsedClaim(b, "[/box, idle]")
	size, dir := transferSize(b), b.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(b, os.WriteFile(file, make([]byte, size), 0o644))
	docker := func(args ...string) func() error {
		return exec.CommandContext(b.Context(), "docker", append([]string{"cp"}, args...)...).Run
	}
	for b.Loop() {
		reportRate(b, "in", size, timed(b, u.line(b.Context(), "cp", file, u.claim+":/in").Run))
		reportRate(b, "in-docker-cp", size, timed(b, docker(file, u.container+":/in")))
		reportRate(b, "out", size, timed(b, u.line(b.Context(), "cp", u.claim+":/in", filepath.Join(dir, "out")).Run))
		reportRate(b, "out-docker-cp", size, timed(b, docker(u.container+":/in", filepath.Join(dir, "out2"))))
		reportRate(b, "copy", size, timed(b, exec.CommandContext(b.Context(), "cp", file, filepath.Join(dir, "copy")).Run))
	}
}
