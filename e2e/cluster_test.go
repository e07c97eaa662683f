package e2e

import (
	"context"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/clustertest"
)

// localCluster returns the cluster of this machine, or why there is none. The
// tests use it to verify what Hostler reports. All servers of a run share a
// namespace, so that each must ignore the containers of the others.
var localCluster = sync.OnceValues(func() (*clustertest.Cluster, error) {
	c, err := clustertest.Find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := c.MakeNamespace(ctx, runID); err != nil {
		return nil, err
	}
	cleanUpAtEnd(func(ctx context.Context) error { return c.RemoveNamespace(ctx, runID) })
	return c, nil
})

// askCluster sends a request to the cluster, which has to succeed.
func askCluster(t testing.TB, method, path string, object, answer any) {
	t.Helper()
	c, err := localCluster()
	require.NoError(t, err)
	require.NoError(t, c.Do(t.Context(), method, path, object, answer))
}

// pod has the fields of a pod that the tests check.
type pod struct {
	Metadata struct {
		Name, UID string
		Labels    map[string]string
	}
	Status struct {
		ContainerStatuses []struct{ ContainerID string }
	}
}

// podPath returns the path of a container's pod.
func podPath(id string) string { return "/api/v1/namespaces/" + runID + "/pods/hostler-" + id }

func podOf(t testing.TB, id string) pod {
	t.Helper()
	var p pod
	askCluster(t, "GET", podPath(id), nil, &p)
	return p
}

// podsOf returns the names of an instance's pods.
func podsOf(t testing.TB, instance string) []string {
	t.Helper()
	var list struct{ Items []pod }
	askCluster(t, "GET", "/api/v1/namespaces/"+runID+"/pods?labelSelector="+
		url.QueryEscape("hostler.instance="+instance), nil, &list)
	names := []string{}
	for _, p := range list.Items {
		names = append(names, "/"+p.Metadata.Name)
	}
	return names
}

// kubeconfigFor writes a kubeconfig that reaches the cluster through a server
// address, and returns its path.
func kubeconfigFor(t testing.TB, server string) string {
	t.Helper()
	c, err := localCluster()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, c.WriteKubeconfig(path, server))
	return path
}
