// Package clustertest provides a Kubernetes cluster for tests: it finds the one
// whose only node is this machine, sends requests to its API server in plain
// HTTP, and runs a registry from which that node can pull.
//
// It does not depend on Hostler. .ci/cluster starts the cluster, and the
// callers decide what a missing one means.
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

// timeout bounds a request to the API server.
const timeout = time.Minute

// Cluster is a cluster that was available when Find was called. Its methods are
// safe for concurrent use.
type Cluster struct {
	Dir    string       // its directory
	Config *rest.Config // with administrator rights
	http   *http.Client
}

// Find returns the cluster of this machine, or an error. The cluster is in the
// directory HOSTLER_TEST_CLUSTER, or in the default one of .ci/cluster.
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

// Kubeconfig returns the path of the cluster's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// WriteKubeconfig writes a kubeconfig with the same cluster and credentials but
// another server address.
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

// MakeNamespace creates a namespace and returns when pods can be created in it,
// which requires its default service account.
func (c *Cluster) MakeNamespace(ctx context.Context, name string) error {
	object := map[string]any{"metadata": map[string]any{"name": name}}
	if err := c.Do(ctx, http.MethodPost, "/api/v1/namespaces", object, nil); err != nil {
		return fmt.Errorf("create the namespace %s: %w", name, err)
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

// RemoveNamespace deletes a namespace and everything in it.
func (c *Cluster) RemoveNamespace(ctx context.Context, name string) error {
	return c.Do(ctx, http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil)
}

// Do sends a request to the API server. A nil object is not sent, and with a
// nil answer the response is not decoded. A string object is sent as YAML, of
// which JSON is a subset.
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

// encode returns the request body of an object and its content type.
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
