package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hostler/hostler/internal/testenv"
)

// object is an object of the API server.
type object = map[string]any

// cluster is a client, in plain HTTP, of a Kubernetes cluster whose only node is
// this machine.
type cluster struct {
	config *rest.Config
	http   *http.Client
}

// kubeconfig returns the path of the administrator's kubeconfig.
func kubeconfig() string {
	dir := os.Getenv("HOSTLER_TEST_CLUSTER")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "hostler-cluster")
	}
	return filepath.Join(dir, "kubeconfig")
}

var localCluster = sync.OnceValues(func() (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("find the cluster (.ci/cluster starts one): %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Timeout = waitTimeout
	c := &cluster{config: config, http: client}
	return c, c.do(context.Background(), "GET", "/version", nil, nil)
})

// requireCluster skips the test if there is no cluster, and fails it if one is
// required.
func requireCluster(t testing.TB) *cluster {
	t.Helper()
	testenv.FullOnly(t, "chart", "the chart on a cluster")
	c, err := localCluster()
	if err == nil {
		return c
	}
	testenv.Skip(t, "kubernetes", "no Kubernetes cluster answers: %v", err)
	return nil
}

// do sends a request to the API server. A nil body is not sent, and a nil answer
// is not decoded.
func (c *cluster) do(ctx context.Context, method, path string, body, answer any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = strings.NewReader(string(text))
	}
	request, err := http.NewRequestWithContext(ctx, method, c.config.Host+path, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
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

// mustDo is do for a request that has to succeed.
func (c *cluster) mustDo(t testing.TB, method, path string, body, answer any) {
	t.Helper()
	require.NoError(t, c.do(t.Context(), method, path, body, answer))
}

// namespace creates a namespace that enforces a Pod Security level. It is deleted
// when the test ends.
func (c *cluster) namespace(t testing.TB, level string) string {
	t.Helper()
	name := runID + "-" + uuid.NewString()[:4]
	c.mustDo(t, "POST", "/api/v1/namespaces", object{"metadata": object{"name": name,
		"labels": object{"pod-security.kubernetes.io/enforce": level}}}, nil)
	t.Cleanup(func() {
		require.NoError(t, c.do(context.Background(), "DELETE", "/api/v1/namespaces/"+name, nil, nil))
	})
	eventually(t, "the namespace has no service account", func() error {
		return c.do(t.Context(), "GET", "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil)
	})
	return name
}

// asAccount returns a client with the rights of a service account.
func (c *cluster) asAccount(t testing.TB, namespace, account string) *cluster {
	t.Helper()
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = c.token(t, namespace, account)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	return &cluster{config: config, http: client}
}

func (c *cluster) token(t testing.TB, namespace, account string) string {
	t.Helper()
	var made struct{ Status struct{ Token string } }
	c.mustDo(t, "POST", "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token",
		object{"spec": object{"expirationSeconds": 3600}}, &made)
	return made.Status.Token
}

// pod has the fields of a pod that the tests check.
type pod struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp string
		Labels            map[string]string
	}
	Status struct {
		PodIP      string
		Phase      string
		Conditions []struct{ Type, Status, Message string }
	}
}

func (p pod) isReady() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return p.Metadata.DeletionTimestamp == ""
		}
	}
	return false
}

// pods returns the pods of a namespace that a selector selects.
func (c *cluster) pods(ctx context.Context, namespace, selector string) ([]pod, error) {
	var list struct{ Items []pod }
	err := c.do(ctx, "GET", "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+url.QueryEscape(selector), nil, &list)
	return list.Items, err
}
