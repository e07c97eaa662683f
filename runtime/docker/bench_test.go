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

// BenchmarkExec compares, in one run and turn by turn, a hook through an open
// session with the same command by the engine's API, by `docker exec`, and as
// a plain process of this machine.
func BenchmarkExec(b *testing.B) {
	rt, api := open(b), needEngine(b)
	id := up(b, rt)
	docker, err := exec.LookPath("docker")
	if err != nil {
		b.Skip("there is no docker command line to compare with")
	}
	args := []string{"/echo"}
	echo := filepath.Join(b.TempDir(), "echo")
	require.NoError(b, os.WriteFile(echo, []byte(buildProgram(b, "echo")), 0o755))
	ways := []struct {
		name string
		run  func() error
	}{
		{"session", func() error {
			_, err := rt.Exec(b.Context(), id, runtime.Command{Args: args})
			return err
		}},
		{"engine", func() error {
			made, err := api.ContainerExecCreate(b.Context(), "hostler-"+id, container.ExecOptions{
				Cmd: args, AttachStdout: true, AttachStderr: true})
			if err != nil {
				return err
			}
			stream, err := api.ContainerExecAttach(b.Context(), made.ID, container.ExecAttachOptions{})
			if err != nil {
				return err
			}
			defer stream.Close()
			if _, err := stdcopy.StdCopy(io.Discard, io.Discard, stream.Reader); err != nil {
				return err
			}
			_, err = api.ContainerExecInspect(b.Context(), made.ID)
			return err
		}},
		{"cli", func() error { return exec.Command(docker, append([]string{"exec", "hostler-" + id}, args...)...).Run() }},
		{"host", func() error { return exec.Command(echo).Run() }},
	}
	took := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			begun := time.Now()
			require.NoError(b, way.run(), way.name)
			took[i] = append(took[i], time.Since(begun))
		}
	}
	session, engine, cli, host := median(took[0]), median(took[1]), median(took[2]), median(took[3])
	for i, way := range ways {
		b.ReportMetric(median(took[i])*1000, way.name+"-p50-ms")
	}
	b.ReportMetric(engine/session, "engine/session")
	b.ReportMetric(cli/session, "cli/session")
	b.ReportMetric(session/host, "session/host")
}

// median is in seconds: what other work on the machine adds to some rounds
// does not move it.
func median(took []time.Duration) float64 {
	slices.Sort(took)
	return took[len(took)/2].Seconds()
}

// BenchmarkRestart compares, turn by turn, the shim's restart through an open
// session with the engine's. The engine's loses the session: it is opened again
// before the next turn.
func BenchmarkRestart(b *testing.B) {
	rt, api := open(b), needEngine(b)
	id := up(b, rt)
	var ours, hook, theirs []time.Duration
	timed := func(took *[]time.Duration, do func() error) {
		begun := time.Now()
		require.NoError(b, do())
		*took = append(*took, time.Since(begun))
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
