package docker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// An older engine creates two networks of a name for two concurrent requests, and
// starts no container on either. The surplus one is removed both before a
// container is created and before it is started.
func TestDuplicateNetworkIsRemoved(t *testing.T) {
	rt, api := openRuntime(t), needEngine(t)
	startContainer(t, rt) // the network exists now
	createDuplicateNetwork(t, api)
	startContainer(t, rt)
	require.Equal(t, 1, countDefaultNetworks(t, api))

	spec := newSpec()
	require.NoError(t, rt.Create(t.Context(), spec))
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.Background(), spec.ID)) })
	createDuplicateNetwork(t, api)
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	require.Equal(t, 1, countDefaultNetworks(t, api))
	status, err := rt.Status(t.Context(), spec.ID)
	require.NoError(t, err)
	require.Equal(t, runtime.Running, status.State)
}

// createDuplicateNetwork sends the request without checking what exists, unlike
// the client. A newer engine rejects a name that it has.
func createDuplicateNetwork(t *testing.T, api *client.Client) {
	t.Helper()
	dial := api.Dialer()
	engine := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}
	defer engine.CloseIdleConnections()
	answer, err := engine.Post("http://docker/networks/create", "application/json",
		strings.NewReader(`{"Name":"hostler","Driver":"bridge","Labels":{"hostler.managed":"true",
			"hostler.instance":"`+instance+`"},"Options":{"com.docker.network.bridge.enable_icc":"false"}}`))
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	if answer.StatusCode == http.StatusConflict {
		return
	}
	require.Equal(t, http.StatusCreated, answer.StatusCode, string(body))
}

func countDefaultNetworks(t *testing.T, api *client.Client) int {
	t.Helper()
	found, err := api.NetworkList(t.Context(), network.ListOptions{
		Filters: filters.NewArgs(filters.Arg("name", "^hostler$"))})
	require.NoError(t, err)
	return len(found)
}
