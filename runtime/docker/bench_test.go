package docker_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// BenchmarkExec compares, in one run and alternating, a hook through an open
// session with the same command by the engine's API, by `docker exec`, and as
// a plain process of this machine.
func BenchmarkExec(b *testing.B) {
	rt, api := openRuntime(b), needEngine(b)
	id := startContainer(b, rt)
	docker, err := exec.LookPath("docker")
	if err != nil {
		b.Skip("the docker command line is not available for comparison")
	}
	args := []string{"/echo"}
	echo := filepath.Join(b.TempDir(), "echo")
	require.NoError(b, os.WriteFile(echo, []byte(buildProgram(b, "echo")), 0o755))
	variants := []struct {
		name string
		run  func() error
	}{
		{"session", func() error {
			_, err := rt.Exec(b.Context(), id, runtime.Command{Args: args})
			return err
		}},
		{"engine", func() error {
			created, err := api.ContainerExecCreate(b.Context(), "hostler-"+id, container.ExecOptions{
				Cmd: args, AttachStdout: true, AttachStderr: true})
			if err != nil {
				return err
			}
			stream, err := api.ContainerExecAttach(b.Context(), created.ID, container.ExecAttachOptions{})
			if err != nil {
				return err
			}
			defer stream.Close()
			if _, err := stdcopy.StdCopy(io.Discard, io.Discard, stream.Reader); err != nil {
				return err
			}
			_, err = api.ContainerExecInspect(b.Context(), created.ID)
			return err
		}},
		{"cli", func() error { return exec.Command(docker, append([]string{"exec", "hostler-" + id}, args...)...).Run() }},
		{"host", func() error { return exec.Command(echo).Run() }},
	}
	durations := make([][]time.Duration, len(variants))
	for b.Loop() {
		for i, variant := range variants {
			start := time.Now()
			require.NoError(b, variant.run(), variant.name)
			durations[i] = append(durations[i], time.Since(start))
		}
	}
	session, engine, cli, host := median(durations[0]), median(durations[1]), median(durations[2]), median(durations[3])
	for i, variant := range variants {
		b.ReportMetric(median(durations[i])*1000, variant.name+"-p50-ms")
	}
	b.ReportMetric(engine/session, "engine/session")
	b.ReportMetric(cli/session, "cli/session")
	b.ReportMetric(session/host, "session/host")
}

// median is in seconds. Other load on the machine affects some rounds, but not
// the median.
func median(durations []time.Duration) float64 {
	slices.Sort(durations)
	return durations[len(durations)/2].Seconds()
}

// BenchmarkRestart compares, alternating, the shim's restart through an open
// session with the engine's. The engine's loses the session: it is opened again
// before the next round.
func BenchmarkRestart(b *testing.B) {
	rt, api := openRuntime(b), needEngine(b)
	id := startContainer(b, rt)
	var ours, hook, theirs []time.Duration
	timed := func(durations *[]time.Duration, do func() error) {
		start := time.Now()
		require.NoError(b, do())
		*durations = append(*durations, time.Since(start))
	}
	run := func() error {
		_, err := rt.Exec(b.Context(), id, runtime.Command{Args: []string{"/echo"}})
		return err
	}
	for b.Loop() {
		require.NoError(b, run())
		timed(&ours, func() error { return rt.Restart(b.Context(), id, 1) })
		timed(&hook, run)
		timed(&theirs, func() error {
			return api.ContainerRestart(b.Context(), "hostler-"+id, container.StopOptions{Timeout: new(int)})
		})
	}
	session, engine := median(ours), median(theirs)
	b.ReportMetric(session*1000, "session-p50-ms")
	b.ReportMetric(median(hook)*1000, "hook-after-p50-ms")
	b.ReportMetric(engine*1000, "engine-p50-ms")
	b.ReportMetric(engine/session, "engine/session")
}
