package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// The clients in other languages work with a real server, and agree with its OpenAPI
// document. Their tests are in their own languages.
func TestClients(t *testing.T) {
	t.Parallel()
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		python := requirePython(t)
		requireClient(t, "../clients/python", "\nOK\n", python, "-W", "error::ResourceWarning", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	})
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		const dir = "../clients/typescript"
		node := requireNode(t, dir)
		compile := exec.CommandContext(t.Context(), node, "node_modules/typescript/bin/tsc", "-p", ".")
		compile.Dir = dir
		out, err := compile.CombinedOutput()
		require.NoError(t, err, "%s", out)
		tests, err := filepath.Glob(filepath.Join(dir, "tests", "*.test.mjs"))
		require.NoError(t, err)
		require.NotEmpty(t, tests)
		command := []string{node, "--test", "--test-reporter=tap"}
		for _, file := range tests {
			command = append(command, filepath.Join("tests", filepath.Base(file)))
		}
		requireClient(t, dir, "\n# skipped 0\n", command...)
	})
}

// requireNode returns the path of a Node.js that the client in a directory supports,
// where its compiler is installed.
func requireNode(t *testing.T, dir string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		testenv.Skip(t, "node", "there is no node: %v", err)
	}
	if out, err := exec.Command(node, "-e", "if (parseInt(process.versions.node) < 20) throw process.version").CombinedOutput(); err != nil {
		testenv.Skip(t, "node", "node is older than 20: %s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "typescript")); err != nil {
		testenv.Skip(t, "node", "no compiler, make clients-tool: %v", err)
	}
	return node
}

// requirePython returns the path of a Python that the client supports.
func requirePython(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		testenv.Skip(t, "python", "there is no python3: %v", err)
	}
	if out, err := exec.Command(python, "-c", "import sys; assert sys.version_info >= (3, 9), sys.version").CombinedOutput(); err != nil {
		testenv.Skip(t, "python", "python3 is older than 3.9: %s", out)
	}
	return python
}

// requireClient runs the tests of a client in its directory with a server of their
// own. The output has a text when no test was skipped.
func requireClient(t *testing.T, dir, complete string, command ...string) {
	t.Helper()
	const key = "the-key-of-the-clients"
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("clients:"+key+"\n"), 0o600))
	s := serve(t, processBackend{}, "--api-key-file", keys)
	var err error
	s.Client, err = client.New(s.base, key)
	require.NoError(t, err)
	port := freePort(t)
	s.apply("client", fmt.Sprintf("ports: [%d]\npool: { min_idle: 1, max_size: 3 }\n", port))
	document := filepath.Join(t.TempDir(), "openapi.json")
	s.downloadDocument(key, document)

	c := exec.CommandContext(testenv.Context(t), command[0], command[1:]...)
	c.Dir = dir
	c.Env = environment("HOSTLER_SERVER="+s.base, "HOSTLER_API_KEY="+key, "HOSTLER_OPENAPI="+document, "HOSTLER_TEST_REQUIRED=1",
		"HOSTLER_TEST_WORKLOAD=client", "HOSTLER_TEST_PORT="+strconv.Itoa(port), "HOSTLER_TEST_DIR=/state", "PYTHONDONTWRITEBYTECODE=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), complete, "no test is skipped")
}

// downloadDocument writes the OpenAPI document to a file.
func (s *server) downloadDocument(key, to string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+"/openapi.json", http.NoBody)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close() //nolint:errcheck // it was only read
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(to, text, 0o600))
}
