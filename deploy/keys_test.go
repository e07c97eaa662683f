// Package deploy has the installation files of Hostler. It tests the chart on
// an earlier installation; e2e/kubernetes has the other tests.
package deploy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// An upgrade keeps the generated key, and the keys that an operator added to
// the Secret.
func TestUpgradeKeepsKeys(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		there map[string][]byte
		want  string
	}{
		"nothing yet": {nil, `^# One key per line.*\nfirst: \w{40}\n$`},
		"made":        {map[string][]byte{"key": []byte("k1"), "keys": []byte("first: k1\n")}, `^first: k1\n$`},
		"added":       {map[string][]byte{"key": []byte("k1"), "keys": []byte("first: k1\n# theirs\nteam: k2")}, `^first: k1\n# theirs\nteam: k2\n$`},
		"no list":     {map[string][]byte{"key": []byte("k1")}, `^# One key per line.*\nfirst: k1\n$`},
	} {
		require.Regexp(t, c.want, renderKeys(t, c.there), what)
	}
}

// renderKeys returns the keys that the chart passes to a server when a Secret
// with such data exists.
func renderKeys(t *testing.T, existing map[string][]byte) string {
	t.Helper()
	api := httptest.NewServer(fakeCluster(existing))
	defer api.Close()
	home := t.TempDir()
	// The copy makes the chart an input of the test for go test's cache, which
	// tracks only the files that a test reads itself.
	chart := filepath.Join(home, "chart")
	require.NoError(t, os.CopyFS(chart, os.DirFS("chart")))
	c := exec.CommandContext(t.Context(), requireHelm(t), "template", "hostler", chart, "--namespace", "ns",
		"--dry-run=server", "--kube-version", "1.34.0", "--show-only", "templates/config.yaml")
	c.Env = []string{"HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none"), "HELM_KUBEAPISERVER=" + api.URL}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	block := regexp.MustCompile(`(?m)^  keys: \|\n((?:    .*\n)+)`).FindSubmatch(out)
	require.NotNil(t, block, "%s", out)
	return strings.ReplaceAll("\n"+string(block[1]), "\n    ", "\n")[1:]
}

// fakeCluster implements the part of the Kubernetes API that a template uses.
func fakeCluster(data map[string][]byte) http.Handler {
	type object = map[string]any
	answers := map[string]any{
		"/version": object{"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
		"/api":     object{"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis":    object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []object{}},
		"/api/v1": object{"kind": "APIResourceList", "groupVersion": "v1", "resources": []object{
			{"name": "secrets", "namespaced": true, "kind": "Secret", "verbs": []string{"get"}},
		}},
	}
	if data != nil {
		answers["/api/v1/namespaces/ns/secrets/hostler-api-keys"] = object{
			"kind": "Secret", "apiVersion": "v1", "data": data,
			"metadata": object{"name": "hostler-api-keys", "namespace": "ns"},
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
		}
		_ = json.NewEncoder(w).Encode(answer) // Helm reports what is missing
	})
}

// requireHelm returns the path of Helm, as `make helm-tool` builds it.
func requireHelm(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("../bin/tools/helm-*")
	require.NoError(t, err)
	if len(found) == 0 {
		testenv.Skip(t, "helm", "there is no Helm: make helm-tool")
	}
	path, err := filepath.Abs(found[0])
	require.NoError(t, err)
	_, err = os.Stat(path)
	require.NoError(t, err)
	return path
}
