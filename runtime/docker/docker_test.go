package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/shim"
)

// Devices keep their owners: running a command as a user changes none.
func TestDeviceOwnersUnchanged(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) { s.User = "1234:5678" })
	require.Contains(t, mustExec(t, rt, id, "/box", "stat", "/dev/null"), " 0 0 ", "uid and gid")
}

// Commands have no capability and can gain none, whatever their user is.
func TestCommandsHaveNoCapabilities(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	for _, user := range []string{"", "0:0", "1234:5678"} {
		id := startContainer(t, rt, func(s *runtime.Spec) { s.User = user })
		require.Contains(t, mustExec(t, rt, id, "/box", "id"), "caps=0 nnp=1", "as %q", user)
	}
}

// The engine receives the limits, given or default, and no request for anything
// on its own machine, which may be remote.
func TestContainerConfiguration(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	inspect := func(change ...func(*runtime.Spec)) container.InspectResponse {
		c, err := api.ContainerInspect(t.Context(), "hostler-"+startContainer(t, rt, change...))
		require.NoError(t, err)
		return c
	}
	plain := inspect()
	require.EqualValues(t, 512, *plain.HostConfig.PidsLimit)
	require.EqualValues(t, 512<<20, plain.HostConfig.Memory)
	require.EqualValues(t, 512<<20, plain.HostConfig.MemorySwap)
	require.EqualValues(t, 1e9, plain.HostConfig.NanoCPUs)
	require.Contains(t, plain.HostConfig.SecurityOpt, "no-new-privileges")
	require.Empty(t, plain.HostConfig.Binds)
	require.False(t, plain.HostConfig.Privileged)
	for _, m := range plain.Mounts {
		require.Equal(t, mount.TypeVolume, m.Type, "%s", m.Destination)
		require.Equal(t, m.Destination != shim.Mount, m.RW, "%s", m.Destination)
	}
	labels := plain.Config.Labels
	require.Equal(t, "true", labels["hostler.managed"])
	require.Equal(t, instance, labels["hostler.instance"])
	require.Equal(t, "hostler-"+labels["hostler.container"], strings.TrimPrefix(plain.Name, "/"))
	require.Equal(t, []string{"test", "r1"}, []string{labels["hostler.workload"], labels["hostler.revision"]})

	given := inspect(func(s *runtime.Spec) {
		s.Limits = runtime.Limits{CPUs: 0.5, Memory: 64 << 20, PIDs: 99}
		s.DNS = []string{"192.0.2.1"}
		s.ReadOnly = true
	})
	require.EqualValues(t, 99, *given.HostConfig.PidsLimit)
	require.EqualValues(t, 64<<20, given.HostConfig.Memory)
	require.EqualValues(t, 5e8, given.HostConfig.NanoCPUs)
	require.Equal(t, []string{"192.0.2.1"}, given.HostConfig.DNS)
	require.True(t, given.HostConfig.ReadonlyRootfs)
}

// What the workload leaves open is the image's: command, user, environment and
// working directory. Files that are copied in belong to that user.
func TestImageDefaultsApply(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.Image, s.Command, s.Workdir = imageUsers, nil, ""
		s.Environment = map[string]string{"FROM_SPEC": "too"}
	})
	require.Contains(t, mustExec(t, rt, id, "box", "id"), "uid=1001 gid=1001 groups=")
	require.Equal(t, "/home/alice", strings.TrimSpace(mustExec(t, rt, id, "box", "pwd")))
	require.Equal(t, "yes", strings.TrimSpace(mustExec(t, rt, id, "box", "env", "FROM_IMAGE")))
	require.Equal(t, "too", strings.TrimSpace(mustExec(t, rt, id, "box", "env", "FROM_SPEC")))
	require.NotContains(t, mustExec(t, rt, id, "box", "env"), "HOSTLER_SHIM")
	require.NoError(t, rt.CopyIn(t.Context(), id, "/data", 0, rootfs(t, map[string]string{"f": "x"})))
	require.Contains(t, mustExec(t, rt, id, "box", "stat", "/data/f"), "1001 1001")

	spec := newSpec()
	spec.Command = nil // and the image has none
	require.ErrorIs(t, rt.Create(t.Context(), spec), runtime.ErrInvalid)
}

// The error for something missing names it and explains what to do.
func TestCreateErrors(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	for name, test := range map[string]struct {
		change func(*runtime.Spec)
		is     error
		words  string
	}{
		"image":      {func(s *runtime.Spec) { s.Image = "127.0.0.1:1/none:latest" }, runtime.ErrImageUnavailable, "127.0.0.1:1"},
		"image name": {func(s *runtime.Spec) { s.Image = "NOT A NAME" }, runtime.ErrImageUnavailable, "NOT A NAME"},
		"no network": {func(s *runtime.Spec) { s.Networks = []string{"nowhere"} }, runtime.ErrInvalid,
			"docker network create nowhere"},
		"the host's network":  {func(s *runtime.Spec) { s.Networks = []string{"host"} }, runtime.ErrInvalid, "host"},
		"another container's": {func(s *runtime.Spec) { s.Networks = []string{"container:x"} }, runtime.ErrInvalid, "container:x"},
		"an invalid target":   {func(s *runtime.Spec) { s.Volumes[0].Target = "relative" }, runtime.ErrInvalid, "relative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := newSpec()
			test.change(&spec)
			err := rt.Create(t.Context(), spec)
			require.ErrorIs(t, err, test.is)
			require.ErrorContains(t, err, test.words)
			require.NoError(t, rt.Destroy(t.Context(), spec.ID))
		})
	}
}

// If a network is removed between Create and Start, the container cannot be
// started. That is not a missing container.
func TestStartWithRemovedNetwork(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	name := instance + "-brief"
	created, err := api.NetworkCreate(t.Context(), name, network.CreateOptions{
		Labels: map[string]string{"hostler.managed": "true", "hostler.instance": instance}})
	require.NoError(t, err)
	spec := newSpec()
	spec.Networks = []string{name}
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.Background(), spec.ID)) })
	require.NoError(t, rt.Create(t.Context(), spec))
	require.NoError(t, api.NetworkRemove(t.Context(), created.ID))
	err = rt.Start(t.Context(), spec.ID, 1)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.NotErrorIs(t, err, runtime.ErrNotFound)
	require.ErrorContains(t, err, name)
}

// A container of another owner is never changed, whatever its name.
func TestForeignContainerUntouched(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	id := uuid.NewString()
	foreign := createForeign(t, needEngine(t), id)
	spec := newSpec()
	spec.ID = id
	require.ErrorIs(t, rt.Create(t.Context(), spec), runtime.ErrInvalid)
	_, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "exit", "0"}})
	require.ErrorIs(t, err, runtime.ErrNotFound)
	require.ErrorIs(t, rt.CopyIn(t.Context(), id, "/", 0, rootfs(t, nil)), runtime.ErrNotFound)
	require.ErrorIs(t, rt.Wipe(t.Context(), id, 1), runtime.ErrNotFound)
	require.NoError(t, rt.Destroy(t.Context(), id))
	c, err := api.ContainerInspect(t.Context(), foreign)
	require.NoError(t, err)
	require.True(t, c.State.Running)
}

// What happens to a container while a command runs is reported, and never as a
// success.
func TestExecWhenContainerExits(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	second := 1
	for name, end := range map[string]func(ctx context.Context, id string) error{
		"killed": func(ctx context.Context, id string) error { return api.ContainerKill(ctx, id, "KILL") },
		"stopped": func(ctx context.Context, id string) error {
			return api.ContainerStop(ctx, id, container.StopOptions{Timeout: &second})
		},
		"restarted": func(ctx context.Context, id string) error {
			return api.ContainerRestart(ctx, id, container.StopOptions{Timeout: &second})
		},
		"removed": func(ctx context.Context, id string) error {
			return api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := startContainer(t, rt)
			started, done := make(chan struct{}), make(chan error, 1)
			go func() {
				close(started)
				_, err := rt.Exec(context.Background(), id, runtime.Command{Args: []string{"/box", "hang", "here"}, Timeout: 10 * time.Minute})
				done <- err
			}()
			<-started
			testenv.AwaitTrue(t, "the command to run", func() bool { return mustExec(t, rt, id, "/box", "ps", "here") != "" })
			require.NoError(t, end(t.Context(), "hostler-"+id))
			require.ErrorIs(t, testenv.Await(t, done, "Exec returns"), runtime.ErrContainerExited)
		})
	}
}

// A paused container accepts no commands, and one that is paused during a
// command is tainted: nothing in it can be ended.
func TestPausedContainer(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	fresh := openRuntime(t) // has no session yet
	id := startContainer(t, rt)
	name := "hostler-" + id
	require.NoError(t, api.ContainerPause(t.Context(), name))
	_, err := fresh.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "exit", "0"}})
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.ErrorIs(t, rt.CopyIn(t.Context(), id, "/data", 0, rootfs(t, nil)), runtime.ErrNotRunning)
	_, err = rt.Exec(t.Context(), id, runtime.Command{
		Args: []string{"/box", "exit", "0"}, Timeout: 10 * time.Millisecond, Grace: new(10 * time.Millisecond)})
	require.ErrorIs(t, err, runtime.ErrTainted)
	require.NoError(t, rt.Destroy(t.Context(), id), "while paused")
}

// On our own network a container is reachable from this machine and not from
// another container.
func TestTenantNetworkIsolation(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.Command = []string{"/box", "idle", "8080"}
		s.Ports = []int{8080}
	})
	other := startContainer(t, rt)
	status, err := rt.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []int{8080}, status.Endpoint.Ports)
	address := net.JoinHostPort(status.Endpoint.Host, "8080")
	testenv.AwaitTrue(t, "the port to be reached from this machine", func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	require.Equal(t, "ok\n", mustExec(t, rt, id, "/tool", "dial", "127.0.0.1:8080"), "from itself")
	require.NotEqual(t, "ok\n", mustExec(t, rt, other, "/tool", "dial", address), "from another tenant's")
}

// An exit because of memory is reported as such.
func TestOOMKillReported(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, exits, done := make(chan struct{}), make(chan runtime.Exit, 64), make(chan error, 1)
	go func() {
		done <- rt.Watch(ctx, func() { close(ready) }, func(d runtime.Exit) { exits <- d })
	}()
	<-ready
	// Engines may report the exit before its cause is known.
	reported := false
	for attempts := 0; !reported && attempts < 3; attempts++ {
		reported = runOutOfMemory(t, rt, exits)
	}
	require.True(t, reported)
	cancel()
	require.NoError(t, <-done)
}

// runOutOfMemory has a container run out of memory, and reports whether both its
// exit and its status show that.
func runOutOfMemory(t *testing.T, rt *docker.Runtime, exits <-chan runtime.Exit) bool {
	t.Helper()
	spec := newSpec()
	spec.Command = []string{"/tool", "eat"}
	spec.Limits.Memory = 64 << 20
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.Background(), spec.ID)) })
	require.NoError(t, rt.Create(t.Context(), spec))
	// It may have exited before it is reachable.
	if err := rt.Start(t.Context(), spec.ID, 1); err != nil {
		require.ErrorIs(t, err, runtime.ErrNotRunning)
	}
	var exited runtime.Exit
	for exited.ID != spec.ID {
		exited = <-exits
	}
	require.Equal(t, 137, exited.ExitCode)
	status, err := rt.Status(t.Context(), spec.ID)
	require.NoError(t, err)
	require.Equal(t, runtime.Exited, status.State)
	require.Equal(t, 137, status.ExitCode)
	return exited.OOMKilled && status.OOMKilled
}

// Destroy leaves no volume, also if only volumes are left.
func TestDestroyRemovesVolumes(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	id := startContainer(t, rt)
	volume := "hostler-" + id + "-data"
	_, err := api.VolumeInspect(t.Context(), volume)
	require.NoError(t, err)
	require.NoError(t, api.ContainerRemove(t.Context(), "hostler-"+id, container.RemoveOptions{Force: true}))
	require.NoError(t, rt.Destroy(t.Context(), id))
	_, err = api.VolumeInspect(t.Context(), volume)
	require.Error(t, err)
}

// Large files are streamed in and out, completely or not at all.
func TestFilesAreStreamed(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt)
	const size = 64 << 20
	require.NoError(t, rt.CopyIn(t.Context(), id, "/data", 0, bigArchive(size, nil)))
	files, err := rt.CopyOut(t.Context(), id, "/data")
	require.NoError(t, err)
	defer files.Close()
	n, err := io.Copy(io.Discard, files)
	require.NoError(t, err)
	require.Greater(t, n, int64(size))

	broken := fmt.Errorf("the disk fell out")
	err = rt.CopyIn(t.Context(), id, "/data", 0, bigArchive(size, broken))
	require.ErrorIs(t, err, broken, "a source that fails is not a short success")

	ctx, cancel := context.WithCancel(t.Context())
	files, err = rt.CopyOut(ctx, id, "/data")
	require.NoError(t, err)
	defer files.Close()
	cancel()
	_, err = io.Copy(io.Discard, files)
	require.ErrorIs(t, err, context.Canceled)
}

// bigArchive is one file of that size; with err it fails half-way.
func bigArchive(size int64, err error) io.Reader {
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	_ = w.WriteHeader(&tar.Header{Name: "big", Mode: 0o600, Size: size, Typeflag: tar.TypeReg})
	if err != nil {
		return io.MultiReader(&head, io.LimitReader(zeroReader{}, size/2), failingReader{err})
	}
	return io.MultiReader(&head, io.LimitReader(zeroReader{}, size), io.LimitReader(zeroReader{}, 1024))
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }
