package e2e

import (
	"context"
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
		requireClient(t, "../clients/python", python, "-W", "error::ResourceWarning", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	})
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
// own.
func requireClient(t *testing.T, dir string, command ...string) {
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

	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = dir
	c.Env = environment("HOSTLER_SERVER="+s.base, "HOSTLER_API_KEY="+key, "HOSTLER_OPENAPI="+document, "HOSTLER_TEST_REQUIRED=1",
		"HOSTLER_TEST_WORKLOAD=client", "HOSTLER_TEST_PORT="+strconv.Itoa(port), "HOSTLER_TEST_DIR=/state", "PYTHONDONTWRITEBYTECODE=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "\nOK\n", "no test is skipped")
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
