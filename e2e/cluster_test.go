package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is a Kubernetes cluster whose only node is this machine, asked in
// plain HTTP: what Hostler says that it did is not believed but looked up.
type cluster struct {
	dir    string
	config *rest.Config
	http   *http.Client
}

// theCluster is the cluster of this machine, or why there is none. All servers
// of a run share a namespace, so that each is the others' foreigner.
var theCluster = sync.OnceValues(func() (*cluster, error) {
	c := &cluster{dir: os.Getenv("HOSTLER_TEST_CLUSTER")}
	if c.dir == "" {
		c.dir = filepath.Join(os.TempDir(), "hostler-cluster")
	}
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig()); err != nil {
		return nil, fmt.Errorf("find the cluster (.ci/cluster starts one): %w", err)
	}
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		return nil, err
	}
	c.http.Timeout = patience
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.makeNamespace(ctx, run); err != nil {
		return nil, err
	}
	atEnd(func(ctx context.Context) error { return c.do(ctx, "DELETE", "/api/v1/namespaces/"+run, nil, nil) })
	return c, nil
})

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// makeNamespace makes a namespace and returns when pods can be made in it: it
// refuses them before it has its service account.
func (c *cluster) makeNamespace(ctx context.Context, name string) error {
	object := map[string]any{"metadata": map[string]any{"name": name}}
	if err := c.do(ctx, "POST", "/api/v1/namespaces", object, nil); err != nil {
		return err
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := c.do(ctx, "GET", "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// do asks the API server for something. What is nil is not sent, or not read.
func (c *cluster) do(ctx context.Context, method, path string, object, answer any) error {
	body := ""
	if object != nil {
		b, err := json.Marshal(object)
		if err != nil {
			return err
		}
		body = string(b)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.config.Host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// must is do that has to succeed.
func (c *cluster) must(t testing.TB, method, path string, object, answer any) {
	t.Helper()
	require.NoError(t, c.do(t.Context(), method, path, object, answer))
}

// pod is what the tests look at of one.
type pod struct {
	Metadata struct {
		Name, UID string
		Labels    map[string]string
	}
	Status struct {
		ContainerStatuses []struct{ ContainerID string }
	}
}

// podPath is the path of a container's pod.
func podPath(id string) string { return "/api/v1/namespaces/" + run + "/pods/hostler-" + id }

func podOf(t testing.TB, id string) pod {
	t.Helper()
	c, err := theCluster()
	require.NoError(t, err)
	var p pod
	c.must(t, "GET", podPath(id), nil, &p)
	return p
}

// podsOf are the names of an instance's pods.
func podsOf(t testing.TB, instance string) []string {
	t.Helper()
	c, err := theCluster()
	require.NoError(t, err)
	var list struct{ Items []pod }
	c.must(t, "GET", "/api/v1/namespaces/"+run+"/pods?labelSelector="+
		url.QueryEscape("hostler.instance="+instance), nil, &list)
	names := []string{}
	for _, p := range list.Items {
		names = append(names, "/"+p.Metadata.Name)
	}
	return names
}

// kubeconfigFor is a kubeconfig of the same cluster and rights that leads
// elsewhere.
func (c *cluster) kubeconfigFor(t testing.TB, server string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.kubeconfig())
	require.NoError(t, err)
	for _, cluster := range config.Clusters {
		real, err := url.Parse(cluster.Server)
		require.NoError(t, err)
		cluster.Server, cluster.TLSServerName = server, real.Hostname()
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return path
}
