package docker_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/shim"
)

// hijackedStream is a session's stream to a bridge.
type hijackedStream struct {
	conn types.HijackedResponse
	out  *io.PipeReader
}

func (s hijackedStream) Read(p []byte) (int, error)  { return s.out.Read(p) }
func (s hijackedStream) Write(p []byte) (int, error) { return s.conn.Conn.Write(p) }
func (s hijackedStream) Close() error                { s.conn.Close(); return s.out.Close() }

// startNonRoot starts a container as backend kubernetes does with --non-root:
// process 1 and the tenant have the same user. It returns a session.
func startNonRoot(t *testing.T, api *client.Client, rt *docker.Runtime) *shim.Session {
	t.Helper()
	id := uuid.NewString()
	env, err := shim.Config{
		Args: []string{"/box", "idle"}, Key: shim.DeriveKey(secret, id), Workdir: "/data",
		StartedMarker: shim.RunDir + "/began", FenceFile: shim.RunDir + "/" + shim.FenceFileName,
	}.Env()
	require.NoError(t, err)
	ctx := context.Background()
	made, err := api.ContainerCreate(ctx, &container.Config{
		Image: imageTestprog, Entrypoint: []string{shim.BinaryPath, "init"}, Env: []string{env}, User: "1001:1001", WorkingDir: "/",
	}, &container.HostConfig{
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, NetworkMode: "none", ReadonlyRootfs: true,
		Tmpfs:  map[string]string{shim.RunDir: "rw,mode=0700,uid=1001,gid=1001,size=1m", "/data": "rw,mode=0755,uid=1001,gid=1001"},
		Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: rt.ShimVolume(), Target: shim.Mount, ReadOnly: true}},
	}, nil, nil, "hostler-test-"+id)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, api.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	})
	require.NoError(t, api.ContainerStart(ctx, made.ID, container.StartOptions{}))
	sessions := shim.NewSessions(shim.Options{
		Secret:       secret,
		CheckRunning: func(context.Context, string) error { return nil },
		Dial: func(ctx context.Context, _ string) (io.ReadWriteCloser, int, error) {
			stream, err := connectNonRoot(ctx, api, made.ID)
			return stream, shim.Version, err
		},
	})
	t.Cleanup(func() { require.NoError(t, sessions.Close()) })
	return sessions.Get(id)
}

func connectNonRoot(ctx context.Context, api *client.Client, id string) (io.ReadWriteCloser, error) {
	e, err := api.ContainerExecCreate(ctx, id, container.ExecOptions{
		User: "1001:1001", Cmd: []string{shim.BinaryPath, "connect"}, WorkingDir: "/", AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, err
	}
	conn, err := api.ContainerExecAttach(ctx, e.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	go func() { // ends with the stream
		_, err := stdcopy.StdCopy(in, io.Discard, conn.Reader)
		in.CloseWithError(errors.Join(err, io.EOF))
	}()
	return hijackedStream{conn, out}, nil
}

// Where the tenant has the user of process 1, it can write to the shim's own
// directory. What it writes there does not reach the next tenant.
func TestNonRootRunDirIsWiped(t *testing.T) {
	api, rt := needEngine(t), openRuntime(t)
	startContainer(t, rt) // so that the shim's volume is there
	s := startNonRoot(t, api, rt)
	testprog := func(args ...string) string {
		t.Helper()
		r, err := s.Exec(t.Context(), runtime.Command{Args: append([]string{"/box"}, args...), Timeout: time.Minute})
		require.NoError(t, err)
		require.True(t, r.OK(), "%q: %+v", args, r)
		return r.Stdout.String()
	}
	require.NoError(t, s.RecordBaseline(t.Context(), 1))
	testprog("write", shim.RunDir+"/began", "secret")
	require.NoError(t, s.Wipe(t.Context(), 2))
	require.NoError(t, s.Restart(t.Context(), 2))
	require.Empty(t, testprog("read", shim.RunDir+"/began"))
	require.Equal(t, "2", strings.TrimSpace(testprog("read", shim.RunDir+"/fence")))
}
