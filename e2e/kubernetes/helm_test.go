package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/hostler/hostler/internal/testenv"
)

const chart = root + "/deploy/chart"

// kubeVersion is the Kubernetes version for which templates are rendered without a
// cluster.
const kubeVersion = "1.34.0"

// requireHelm returns the path of Helm, which `make helm-tool` builds, or skips
// the test.
func requireHelm(t testing.TB) string {
	t.Helper()
	testenv.FullOnly(t, "helm", "tests with Helm")
	mod, err := os.ReadFile(root + "/tools/helm/go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`helm\.sh/helm/v3 (\S+)`).FindSubmatch(mod)
	require.NotNil(t, version, "tools/helm/go.mod does not name Helm")
	path, err := filepath.Abs(root + "/bin/tools/helm-" + string(version[1]))
	require.NoError(t, err)
	if _, err = os.Stat(path); err == nil {
		return path
	}
	testenv.Skip(t, "helm", "there is no Helm (make helm-tool builds it): %v", err)
	return ""
}

// helm runs Helm with values on its standard input, and returns its output. It
// does not use the user's configuration, and its own is deleted.
func helm(t testing.TB, values string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, requireHelm(t), args...)
	home := t.TempDir()
	c.Env = []string{"HOME=" + home, "XDG_CACHE_HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home,
		"KUBECONFIG=" + kubeconfig()}
	var out, errOut strings.Builder
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(values), &out, &errOut
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("helm %q: %w: %s", args, err, errOut.String())
	}
	return out.String(), nil
}

// render returns the manifests of the chart with values.
func render(t testing.TB, values string) (string, error) {
	t.Helper()
	return helm(t, values, "template", "hostler", chart, "--namespace", "hostler", "--kube-version", kubeVersion, "--values", "-")
}

// objects decodes the output of Helm.
func objects(t testing.TB, text string) []object {
	t.Helper()
	var all []object
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<16)
	for {
		var o object
		err := documents.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(o) > 0 {
			all = append(all, o)
		}
	}
}

// findKind returns the only object of a kind.
func findKind(t testing.TB, all []object, kind string) object {
	t.Helper()
	var found []object
	for _, o := range all {
		if o["kind"] == kind {
			found = append(found, o)
		}
	}
	require.Len(t, found, 1, kind)
	return found[0]
}

// lookup returns the value at a path of keys and list indexes.
func lookup(t testing.TB, o any, path ...any) any {
	t.Helper()
	for _, step := range path {
		var err error
		switch key := step.(type) {
		case string:
			m, ok := o.(object)
			if o = m[key]; !ok || o == nil {
				err = errors.New("no such key")
			}
		case int:
			o = o.([]any)[key]
		}
		require.NoError(t, err, "%v of %v", step, path)
	}
	return o
}
