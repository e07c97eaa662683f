package docker_test

import (
	"context"
	"strconv"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/gvisortest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// The backend meets the contract, on the engine of this machine.
func TestRuntimeContract(t *testing.T) {
	needEngine(t)
	runtimetest.Run(t, runtimetest.Harness{
		New:    func(t *testing.T) runtime.Runtime { return openRuntime(t) },
		Reopen: func(t *testing.T) runtime.Runtime { return openRuntime(t) },
		Spec:   func(*testing.T) runtime.Spec { return newSpec() },
		CreateForeign: func(t *testing.T) string {
			id := uuid.NewString()
			createForeign(t, needEngine(t), id)
			return id
		},
		Tamper: func(t *testing.T, rt runtime.Runtime, spec runtime.Spec, protocol string) {
			tamper(t, needEngine(t), rt, spec, protocol)
		},
		CreatePrevious: func(t *testing.T, spec runtime.Spec) {
			rt := openRuntime(t, func(o *docker.Options) { o.ShimPath = runtimetest.BuildPreviousShim(t) })
			tamper(t, needEngine(t), rt, spec, strconv.Itoa(runtimetest.PreviousVersion))
		},
		Sample:  2,
		Rotates: []string{"trees", "tenant files"},
	})
}

// The backend meets the contract under gVisor, on a separate engine.
func TestRuntimeContractGVisor(t *testing.T) {
	host := gvisortest.Host(t)
	importImages(t, host)
	at := func(o *docker.Options) { o.Host = host }
	runtimetest.Run(t, runtimetest.Harness{
		New:    func(t *testing.T) runtime.Runtime { return connect(t, at) },
		Reopen: func(t *testing.T) runtime.Runtime { return connect(t, at) },
		Spec:   func(*testing.T) runtime.Spec { return newSpec() },
		CreateForeign: func(t *testing.T) string {
			api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, api.Close()) })
			id := uuid.NewString()
			createForeign(t, api, id)
			return id
		},
		// gVisor lists neither System V objects nor message queues, which outlive
		// processes, does not record when a file is written through a mapping, and
		// lets root create control groups. Its control groups count no kills.
		Limitations: runtimetest.Limitations{WipeUnverifiable: true, ReadableIOCounters: true, NoOOMCounter: true, NoImageHooks: true},
	})
}

// tamper gives a container this protocol version in its label. Labels cannot be
// changed: the container is created again with another one.
func tamper(t *testing.T, api *client.Client, rt runtime.Runtime, spec runtime.Spec, protocol string) {
	t.Helper()
	name := "hostler-" + spec.ID
	require.NoError(t, rt.Create(t.Context(), spec))
	t.Cleanup(func() {
		err := api.ContainerRemove(context.Background(), name, container.RemoveOptions{Force: true})
		if !cerrdefs.IsNotFound(err) {
			require.NoError(t, err)
		}
		runtimetest.Destroy(t, rt, spec.ID)
	})
	c, err := api.ContainerInspect(t.Context(), name)
	require.NoError(t, err)
	require.Contains(t, c.Config.Labels, "hostler.protocol")
	c.Config.Labels["hostler.protocol"] = protocol
	if protocol == "" {
		delete(c.Config.Labels, "hostler.protocol")
	}
	require.NoError(t, api.ContainerRemove(t.Context(), name, container.RemoveOptions{}))
	_, err = api.ContainerCreate(t.Context(), c.Config, c.HostConfig, nil, nil, name)
	require.NoError(t, err)
	require.NoError(t, api.ContainerStart(t.Context(), name, container.StartOptions{}))
}

// createForeign creates a container with the name that ours would have, and with
// the labels of another instance.
func createForeign(t *testing.T, api *client.Client, id string) (engineID string) {
	t.Helper()
	created, err := api.ContainerCreate(t.Context(), &container.Config{
		Image: imageTestprog, Cmd: []string{"/box", "idle"},
		Labels: map[string]string{
			"hostler.managed": "true", "hostler.instance": "another", "hostler.container": id},
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "hostler-"+id) // the engine may have no bridge
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, api.ContainerRemove(context.Background(), created.ID, container.RemoveOptions{Force: true}))
	})
	require.NoError(t, api.ContainerStart(t.Context(), created.ID, container.StartOptions{}))
	return created.ID
}
