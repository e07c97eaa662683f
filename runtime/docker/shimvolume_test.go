package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/shim"
)

// The volume with the shim is complete however many servers create it
// concurrently, is restored when it was left incomplete, and is created again
// when another program has removed it.
func TestShimVolumeRepair(t *testing.T) {
	t.Parallel()
	api := needEngine(t)
	own := filepath.Join(t.TempDir(), "shim")
	content, err := os.ReadFile(options(t).ShimPath)
	require.NoError(t, err)
	// A version of its own, which no other test uses concurrently.
	require.NoError(t, os.WriteFile(own, append(content, instance...), 0o755))
	fresh := func() *docker.Runtime { return openRuntime(t, func(o *docker.Options) { o.ShimPath = own }) }

	var all errgroup.Group
	var ids [4]string
	for i := range ids {
		rt, spec := fresh(), newSpec()
		ids[i] = spec.ID
		t.Cleanup(func() { require.NoError(t, rt.Destroy(context.Background(), spec.ID)) })
		all.Go(func() error {
			if err := rt.Create(t.Context(), spec); err != nil {
				return err
			}
			return rt.Start(t.Context(), spec.ID, 1)
		})
	}
	require.NoError(t, all.Wait(), "four concurrently")

	rt := fresh()
	c, err := api.ContainerInspect(t.Context(), "hostler-"+ids[0])
	require.NoError(t, err)
	var volume string
	for _, m := range c.Mounts {
		if m.Destination == shim.Mount {
			volume = m.Name
		}
	}
	for _, id := range ids {
		require.NoError(t, rt.Destroy(t.Context(), id))
	}
	require.NoError(t, api.VolumeRemove(t.Context(), volume, false))
	require.Equal(t, "hi\n", mustExec(t, rt, startContainer(t, rt), "/box", "echo", "hi"), "after its removal")
	// A broken copy has the name, and not the content; or the content, readable by
	// every user.
	for i, broken := range []struct {
		mode    int64
		content string
	}{{0o111, "half of it"}, {0o555, string(content) + instance + "1"}} {
		other := filepath.Join(t.TempDir(), "shim")
		require.NoError(t, os.WriteFile(other, fmt.Append(content, instance, i), 0o755))
		rt := openRuntime(t, func(o *docker.Options) { o.ShimPath = other })
		corruptShimVolume(t, rt, broken.mode, broken.content)
		id := startContainer(t, rt)
		require.Contains(t, mustExec(t, rt, id, "/box", "stat", shim.BinaryPath), "file 111 0 0 ", "after it was corrupted")
		for _, dir := range []string{shim.Mount, shim.BinDir} {
			require.Contains(t, mustExec(t, rt, id, "/box", "stat", dir), "dir 111 0 0 ", "containers share it: none can list, lock or watch it")
		}
	}
}

// corruptShimVolume puts other content where the shim of a backend should be, before
// that backend has first checked it.
func corruptShimVolume(t *testing.T, rt *docker.Runtime, mode int64, content string) {
	t.Helper()
	api := needEngine(t)
	created, err := api.ContainerCreate(t.Context(),
		&container.Config{Image: imageTestprog, Cmd: []string{"/box"}},
		&container.HostConfig{Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: rt.ShimVolume(), Target: shim.Mount,
			VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{
				"hostler.managed": "true", "hostler.instance": instance}},
		}}}, nil, nil, "")
	require.NoError(t, err)
	var half bytes.Buffer
	w := tar.NewWriter(&half)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}))
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/shim", Mode: mode, Size: int64(len(content))}))
	_, err = w.Write([]byte(content))
	require.NoError(t, errors.Join(err, w.Close()))
	require.NoError(t, api.CopyToContainer(t.Context(), created.ID, shim.Mount, &half, container.CopyToContainerOptions{}))
	require.NoError(t, api.ContainerRemove(t.Context(), created.ID, container.RemoveOptions{}))
}
