package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// A server outside of the cluster needs no more rights than one inside: it works
// with the kubeconfig of an account that has the chart's Role.
func TestServerOutsideCluster(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	namespace := c.namespace(t, "baseline")
	text, err := helm(t, "", "template", "hostler", chart, "--namespace", namespace, "--kube-version", kubeVersion,
		"--show-only", "templates/role.yaml")
	require.NoError(t, err)
	for _, o := range objects(t, text) {
		c.mustDo(t, "POST", collectionPath(t, o), o, nil)
	}
	i := &installation{t: t, c: c, namespace: namespace, containerNamespace: namespace}
	i.awaitRights(func(all []string) bool {
		return len(all) > len(rights(t, c.asAccount(t, namespace, "default"), namespace))
	})
	i.Client, err = client.New(i.serveOutside(c.accountConfig(t, namespace, "hostler")), "")
	require.NoError(t, err)

	i.apply("notes", workload(t, "notes", notes))
	i.release(i.checkLifecycle("notes"))
	i.remove("notes")
}

// accountConfig writes a kubeconfig for a service account.
func (c *cluster) accountConfig(t testing.TB, namespace, account string) string {
	t.Helper()
	authority := c.config.CAData
	if len(authority) == 0 {
		var err error
		authority, err = os.ReadFile(c.config.CAFile)
		require.NoError(t, err)
	}
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []object{{"name": "it", "cluster": object{
			"server": c.config.Host, "certificate-authority-data": base64.StdEncoding.EncodeToString(authority)}}},
		"users":    []object{{"name": "it", "user": object{"token": c.token(t, namespace, account)}}},
		"contexts": []object{{"name": "it", "context": object{"cluster": "it", "user": "it", "namespace": namespace}}},
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// serveOutside starts a server on this machine, which gets cluster and namespace
// from the kubeconfig, and returns its address.
func (i *installation) serveOutside(kubeconfig string) string {
	t := i.t
	t.Helper()
	ref, err := image()
	require.NoError(t, err)
	return startServer(t, "--runtime", "kubernetes", "--kubeconfig", kubeconfig, "--shim-image", ref)
}

// startServer starts a server on this machine and returns its address.
func startServer(t testing.TB, args ...string) string {
	t.Helper()
	data, err := os.MkdirTemp("", "data-") // short: the paths of sockets are
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(data)) })
	serve := exec.Command(program(t, "hostler"), append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
	serve.Env = []string{"PATH=" + os.Getenv("PATH")}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	serve.Stderr = log
	require.NoError(t, serve.Start())
	t.Cleanup(func() {
		require.NoError(t, serve.Process.Signal(syscall.SIGTERM))
		require.NoError(t, serve.Wait(), "a server exits with 0 on SIGTERM")
		log.Close()
	})
	address := ""
	eventually(t, "the server does not serve", func() error {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			var l struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "serving" {
				address = l.Address
				return nil
			}
		}
		return fmt.Errorf("its log: %s", text)
	})
	return address
}
