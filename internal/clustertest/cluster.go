// Package clustertest is a Kubernetes cluster for tests: it finds the one whose
// only node is this machine, asks its API server in plain HTTP, and has a
// registry from which that node can pull.
//
// It knows nothing of Hostler, and leaves it to .ci/cluster to start the
// cluster and to its callers to say what a missing one means.
package clustertest

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
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// timeout bounds what is asked of the API server.
const timeout = time.Minute

// Cluster is a cluster that was there when it was looked for. Its methods may
// be called by many goroutines at once.
type Cluster struct {
	Dir    string       // its folder
	Config *rest.Config // whose holder may do everything
	http   *http.Client
}

// Find finds the cluster of this machine, or says why there is none. It is in
// the folder HOSTLER_TEST_CLUSTER, or where .ci/cluster puts it.
func Find() (*Cluster, error) {
	c := &Cluster{Dir: os.Getenv("HOSTLER_TEST_CLUSTER")}
	if c.Dir == "" {
		c.Dir = filepath.Join(os.TempDir(), "hostler-cluster")
	}
	var err error
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("find the cluster (.ci/cluster starts one): %w", err)
	}
	if c.http, err = rest.HTTPClientFor(c.Config); err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	c.http.Timeout = timeout
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.Do(ctx, http.MethodGet, "/version", nil, nil); err != nil {
		return nil, fmt.Errorf("find the cluster (.ci/cluster starts one): %w", err)
	}
	return c, nil
}

// Kubeconfig is the file that says how to reach it.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// WriteKubeconfig writes a kubeconfig of the same cluster and rights that leads
// to another address.
func (c *Cluster) WriteKubeconfig(path, server string) error {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		direct, err := url.Parse(cluster.Server)
		if err != nil {
			return fmt.Errorf("read the cluster's kubeconfig: %w", err)
		}
		cluster.Server, cluster.TLSServerName = server, direct.Hostname()
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}

// MakeNamespace makes a namespace and returns when pods can be made in it: it
// refuses them before it has its service account.
func (c *Cluster) MakeNamespace(ctx context.Context, name string) error {
	object := map[string]any{"metadata": map[string]any{"name": name}}
	if err := c.Do(ctx, http.MethodPost, "/api/v1/namespaces", object, nil); err != nil {
		return fmt.Errorf("make the namespace %s: %w", name, err)
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := c.Do(ctx, http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil)
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

// RemoveNamespace has a namespace and all that is in it removed.
func (c *Cluster) RemoveNamespace(ctx context.Context, name string) error {
	return c.Do(ctx, http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil)
}

// Do asks the API server for something. What is nil is not sent, or not read; a
// string is sent as it is, as YAML, which JSON is too.
func (c *Cluster) Do(ctx context.Context, method, path string, object, answer any) error {
	body, kind, err := encode(object)
	if err != nil {
		return err
	}
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Config.Host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", kind)
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// encode is an object as it travels, and what that is.
func encode(object any) (body, kind string, err error) {
	kind = "application/json"
	if object == nil {
		return "", kind, nil
	}
	if text, ok := object.(string); ok {
		return text, "application/yaml", nil
	}
	b, err := json.Marshal(object)
	return string(b), kind, err
}
