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

// kubeVersion is the cluster that templates are rendered for when there is none.
const kubeVersion = "1.34.0"

// requireHelm is the path of Helm, as `make helm-tool` builds it.
func requireHelm(t testing.TB) string {
	t.Helper()
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

// helm runs Helm, with values on its standard input, and gives what it printed.
// Nothing of whoever runs the tests is seen by it, and nothing of it is kept.
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

// render is what the chart makes of values.
func render(t testing.TB, values string) (string, error) {
	t.Helper()
	return helm(t, values, "template", "hostler", chart, "--namespace", "hostler", "--kube-version", kubeVersion, "--values", "-")
}

// objects reads what Helm printed.
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

// findKind is the only object of a kind.
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

// lookup is what is at a path of keys, and of numbers in lists.
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
