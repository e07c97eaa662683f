package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// clientEnvironment are the variables that clients read.
var clientEnvironment = []string{"HOSTLER_SERVER", "HOSTLER_CONTEXT", "HOSTLER_API_KEY", "HOSTLER_API_KEY_FILE", "HOSTLER_CA_FILE", "HOSTLER_CLIENT_CERT", "HOSTLER_CLIENT_KEY"}

// useContexts gives the command line an empty file of contexts, and returns its path.
func useContexts(t *testing.T) string {
	t.Helper()
	for _, name := range clientEnvironment {
		t.Setenv(name, "")
	}
	path := filepath.Join(t.TempDir(), "hostler", "config.yaml")
	t.Setenv("HOSTLER_CLIENT_CONFIG", path)
	return path
}

// mustRun runs a command line that succeeds, and returns its output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := hostler(t, "", args...)
	require.Zero(t, code, "%s: %s", args, errOut)
	return out
}

// credentialServer is a server that records the credentials of requests.
type credentialServer struct {
	*httptest.Server
	mu   sync.Mutex // guards seen
	seen []string
}

func newCredentialServer(t *testing.T) *credentialServer {
	t.Helper()
	s := &credentialServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"items":[]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// last returns the last credential.
func (s *credentialServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return "no request"
	}
	return s.seen[len(s.seen)-1]
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A context is used with its own credential, and its credential with its own server
// only: flags, environment and contexts decide in the order of the help.
func TestContextPrecedence(t *testing.T) {
	useContexts(t)
	one, two, three := newCredentialServer(t), newCredentialServer(t), newCredentialServer(t)
	mustRun(t, "context", "add", "one", "--server", one.URL, "--api-key-file", writeFile(t, "key-of-one"))
	mustRun(t, "context", "add", "two", "--server", two.URL, "--api-key-file", writeFile(t, "key-of-two"))
	key := writeFile(t, "key-of-flag")
	type env map[string]string
	for name, test := range map[string]struct {
		env    env
		args   []string
		server *credentialServer
		want   string
	}{
		"the current one":                  {nil, nil, one, "key-of-one"},
		"the flag":                         {env{"HOSTLER_CONTEXT": "one"}, []string{"--context", "two"}, two, "key-of-two"},
		"the variable":                     {env{"HOSTLER_CONTEXT": "two"}, nil, two, "key-of-two"},
		"--server gets no key of another":  {nil, []string{"--server", three.URL}, three, ""},
		"--server that a context has":      {nil, []string{"--server", one.URL}, one, ""},
		"HOSTLER_SERVER gets none either":  {env{"HOSTLER_SERVER": three.URL, "HOSTLER_CONTEXT": "one"}, nil, three, ""},
		"HOSTLER_SERVER and its key":       {env{"HOSTLER_SERVER": three.URL, "HOSTLER_API_KEY": "key-of-env"}, nil, three, "key-of-env"},
		"--context and no key of others":   {env{"HOSTLER_SERVER": three.URL, "HOSTLER_API_KEY": "key-of-env"}, []string{"--context", "two"}, two, "key-of-two"},
		"the environment before a context": {env{"HOSTLER_API_KEY": "key-of-env"}, nil, one, "key-of-env"},
		"a flag before the environment":    {env{"HOSTLER_API_KEY": "key-of-env"}, []string{"--api-key-file", key}, one, "key-of-flag"},
		"a flag with a context":            {nil, []string{"--context", "two", "--api-key-file", key}, two, "key-of-flag"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range test.env {
				t.Setenv(k, v)
			}
			before := len(test.server.seen)
			mustRun(t, append([]string{"get", "pools"}, test.args...)...)
			require.Len(t, test.server.seen, before+1)
			require.Equal(t, test.want, test.server.last())
		})
	}
	code, _, _ := hostler(t, "", "get", "pools", "--server", one.URL, "--context", "one")
	require.Equal(t, exitUsage, code)
	code, _, _ = hostler(t, "", "get", "pools", "--context", "three")
	require.Equal(t, exitNotFound, code)
}

// Contexts are added, shown, chosen and removed; their file is its owner's only.
func TestContexts(t *testing.T) {
	path := useContexts(t)
	require.Equal(t, "CURRENT   NAME   SERVER   CREDENTIAL\n", mustRun(t, "context", "list"))
	mustRun(t, "context", "add", "a", "--server", "https://a.example.com")
	mustRun(t, "context", "add", "b", "--server", "unix:///run/b.sock", "--api-key-file", "key")
	dir, err := os.Getwd()
	require.NoError(t, err)
	require.Contains(t, mustRun(t, "context", "list"), "b      unix:///run/b.sock      key in "+filepath.Join(dir, "key"))
	require.JSONEq(t, `{"name":"a","current":true,"server":"https://a.example.com"}`, mustRun(t, "context", "show", "-o", "json"))
	mustRun(t, "context", "use", "b")
	require.Contains(t, mustRun(t, "context", "show"), "unix:///run/b.sock")
	mustRun(t, "context", "add", "c", "--server", "unix:c.sock")
	require.Contains(t, mustRun(t, "context", "list"), "unix://"+filepath.Join(dir, "c.sock"))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	mustRun(t, "context", "remove", "b")
	for _, args := range [][]string{{"show"}, {"show", "b"}, {"use", "b"}, {"remove", "b"}} {
		code, _, _ := hostler(t, "", append([]string{"context"}, args...)...)
		require.Equal(t, exitNotFound, code, args)
	}
	for _, args := range [][]string{
		{"../x", "--server", "https://a"}, {"A", "--server", "https://a"}, {"x", "--server", "a"}, {"x"},
		{"x", "--server", "https://a", "--issuer", "https://b"}, {"x", "--server", "https://a", "--issuer", "https://b", "--client-id", "c", "--api-key-file", "d"},
	} {
		code, _, _ := hostler(t, "", append([]string{"context", "add"}, args...)...)
		require.Equal(t, exitUsage, code, args)
	}
}

// A file of contexts with something unknown is an error, and stays as it is.
func TestInvalidContexts(t *testing.T) {
	path := useContexts(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	for _, text := range []string{"currant: a\n", "contexts: {a: {sever: b}}\n", "contexts: {../a: {server: b}}\n", "["} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for _, args := range [][]string{{"get", "pools"}, {"context", "list"}, {"context", "add", "x", "--server", "https://x"}} {
			code, _, errOut := hostler(t, "", args...)
			require.Equal(t, exitFailure, code)
			require.Contains(t, errOut, "contexts")
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
}

// Commands that change the file of contexts at the same time lose no change.
func TestConcurrentContexts(t *testing.T) {
	useContexts(t)
	var g sync.WaitGroup
	codes := make([]int, 20)
	for n := range codes {
		g.Go(func() {
			codes[n], _, _ = hostler(t, "", "context", "add", fmt.Sprint("c", n), "--server", "https://a.example.com")
		})
	}
	g.Wait()
	require.Equal(t, make([]int, 20), codes)
	f, err := readContexts()
	require.NoError(t, err)
	require.Len(t, f.Contexts, 20)
}
