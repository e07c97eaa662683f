package kubernetes

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// installation is Hostler in the cluster, and its client.
type installation struct {
	*client.Client
	t                  *testing.T
	c                  *cluster
	namespace          string // the release's
	containerNamespace string // the containers'
	values             string
	key                string
	server             pod
}

// install installs the chart in a namespace, with values in addition to those
// that every test needs, and waits until the server is ready.
func install(t *testing.T, c *cluster, namespace, containerNamespace, values string) *installation {
	t.Helper()
	repository, tag := requireImage(t)
	i := &installation{t: t, c: c, namespace: namespace, containerNamespace: containerNamespace,
		values: fmt.Sprintf("image: { repository: %s, tag: %s, pullPolicy: Never }\n%s", repository, tag, values)}
	i.install()
	t.Cleanup(i.uninstall)
	i.await("")
	return i
}

func (i *installation) install() {
	i.t.Helper()
	_, err := helm(i.t, i.values, "install", "hostler", chart, "--namespace", i.namespace, "--values", "-")
	require.NoError(i.t, err)
}

// helm runs a Helm command in the release's namespace.
func (i *installation) helm(args ...string) {
	i.t.Helper()
	_, err := helm(i.t, "", append(args, "--namespace", i.namespace)...)
	require.NoError(i.t, err)
}

func (i *installation) readKey() string {
	i.t.Helper()
	var secret struct{ Data map[string]string }
	i.c.mustDo(i.t, "GET", "/api/v1/namespaces/"+i.namespace+"/secrets/hostler-api-keys", nil, &secret)
	key, err := base64.StdEncoding.DecodeString(secret.Data["key"])
	require.NoError(i.t, err)
	return string(key)
}

// await waits until a server other than the given one is ready, and connects the
// client to it.
func (i *installation) await(other string) {
	i.t.Helper()
	eventually(i.t, "the server does not get ready", func() error {
		pods, err := i.c.pods(i.t.Context(), i.namespace, "app.kubernetes.io/name=hostler")
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.isReady() && p.Metadata.UID != other {
				i.server = p
				return nil
			}
		}
		return fmt.Errorf("%+v", pods)
	})
	i.key = i.readKey()
	var err error
	i.Client, err = client.New(i.base(), i.key)
	require.NoError(i.t, err)
}

// base returns the URL of the server. It has the pod's address, because names of
// the cluster are unknown on this machine.
func (i *installation) base() string { return "http://" + i.server.Status.PodIP + ":8700" }

// uninstall removes the release. The rest is deleted with its namespaces.
func (i *installation) uninstall() {
	if i.t.Failed() {
		i.t.Logf("the server's log:\n%s", i.log())
	}
	i.helm("uninstall", "hostler", "--wait", "--cascade", "foreground")
}

// log returns the log of the server's pod.
func (i *installation) log() string {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	path := "/api/v1/namespaces/" + i.namespace + "/pods/" + i.server.Metadata.Name + "/log"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.c.config.Host+path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := i.c.http.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return fmt.Sprint(string(text), err)
}

// volume creates a volume with a new storage class, in a directory of this
// machine.
func (c *cluster) volume(t testing.TB) (class string) {
	t.Helper()
	dir, err := os.MkdirTemp("", runID+"-volume-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	var nodes struct {
		Items []struct {
			Metadata struct{ Labels map[string]string }
		}
	}
	c.mustDo(t, "GET", "/api/v1/nodes", nil, &nodes)
	require.Len(t, nodes.Items, 1)
	const host = "kubernetes.io/hostname"
	class = runID + "-" + uuid.NewString()[:4]
	c.mustDo(t, "POST", "/api/v1/persistentvolumes", object{
		"metadata": object{"name": class},
		"spec": object{
			"capacity": object{"storage": "2Gi"}, "accessModes": []string{"ReadWriteOnce"},
			"storageClassName": class, "persistentVolumeReclaimPolicy": "Retain",
			"local": object{"path": dir},
			"nodeAffinity": object{"required": object{"nodeSelectorTerms": []object{{"matchExpressions": []object{
				{"key": host, "operator": "In", "values": []string{nodes.Items[0].Metadata.Labels[host]}}}}}}},
		}}, nil)
	t.Cleanup(func() {
		require.NoError(t, c.do(context.Background(), "DELETE", "/api/v1/persistentvolumes/"+class, nil, nil))
	})
	return class
}

// workload returns a workload file with the demo's program, which is in Hostler's
// image.
func workload(t testing.TB, id, rest string) string {
	t.Helper()
	repository, tag := requireImage(t)
	return fmt.Sprintf(`id: %s
image: %s:%s
command: [/usr/local/bin/hostler, demo-app, serve]
user: "1000:1000"
read_only: true
volumes: { state: { target: /state } }
%s`, id, repository, tag, rest)
}

// apply applies a workload and waits until it has an idle container.
func (i *installation) apply(id, file string) {
	i.t.Helper()
	_, err := i.Apply(i.t.Context(), id, []byte(file))
	require.NoError(i.t, err)
	i.awaitIdle(id)
}

func (i *installation) awaitIdle(id string) {
	i.t.Helper()
	eventually(i.t, "no container is idle", func() error { return requireFilled(i, id) })
}

// requireFilled returns an error unless the pool has an idle container.
func requireFilled(i *installation, id string) error {
	p, err := i.Pool(i.t.Context(), id)
	if err == nil && p.Containers[client.ContainerIdle] == 0 {
		err = fmt.Errorf("%+v", p)
	}
	return err
}

// remove deletes a workload and waits until no pod of it is left.
func (i *installation) remove(id string) {
	i.t.Helper()
	_, err := i.DeleteWorkload(i.t.Context(), id)
	require.NoError(i.t, err)
	eventually(i.t, "pods are left", func() error {
		pods, err := i.c.pods(i.t.Context(), i.containerNamespace, "hostler.managed,hostler.workload="+id)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%+v", pods)
		}
		return err
	})
}

// status returns the status code of a GET request without a key.
func (i *installation) status(path string) int {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), waitTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.base()+path, http.NoBody)
	require.NoError(i.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(i.t, err)
	defer response.Body.Close()
	return response.StatusCode
}
