package docker_test

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
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
	args := []string{"/box", "echo", "hi"}
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
		{"host", func() error { return exec.Command(runtimetest.BuildBox(b), args[1:]...).Run() }},
	}
	took := make([]time.Duration, len(ways))
	rounds := 0
	for b.Loop() {
		rounds++
		for i, way := range ways {
			begun := time.Now()
			require.NoError(b, way.run(), way.name)
			took[i] += time.Since(begun)
		}
	}
	for i, way := range ways {
		b.ReportMetric(float64(took[i].Microseconds())/float64(rounds)/1000, way.name+"-ms/op")
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "engine/session")
	b.ReportMetric(float64(took[2])/float64(took[0]), "cli/session")
	b.ReportMetric(float64(took[0])/float64(took[3]), "session/host")
}

// BenchmarkRestart compares the shim's restart with the engine's.
func BenchmarkRestart(b *testing.B) {
	rt, api := open(b), needEngine(b)
	id := up(b, rt)
	var ours, theirs time.Duration
	for b.Loop() {
		begun := time.Now()
		require.NoError(b, rt.Restart(b.Context(), id))
		ours += time.Since(begun)
		begun = time.Now()
		zero := 0
		require.NoError(b, api.ContainerRestart(b.Context(), "hostler-"+id, container.StopOptions{Timeout: &zero}))
		theirs += time.Since(begun)
	}
	b.ReportMetric(float64(theirs)/float64(ours), "engine/session")
}
