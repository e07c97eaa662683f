package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// applyExample applies an example with room for one container: another one would need
// its port.
func (s *server) applyExample(name, text string) {
	s.t.Helper()
	text = strings.ReplaceAll(text, "min_idle: 1, max_size: 20", "min_idle: 0, max_size: 1")
	_, err := s.Apply(s.t.Context(), name, []byte(text))
	require.NoError(s.t, err)
}

// A notebook continues where its tenant left it, in another container, and no other
// tenant finds it.
func TestExampleServicesNotebook(t *testing.T) {
	t.Parallel()
	requireProgram(t, "python3")
	port, s := freePort(t), serve(t, processBackend{})
	text := exampleWithPort(t, "notebook", port)
	s.applyExample("notebook", strings.ReplaceAll(text, `"notebook"`, `"`+exampleProgram(t, t.TempDir(), "notebook/notebook.py")+`"`))
	ask := func(g tenantSession, method, path, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://notebook"+path, strings.NewReader(body))
		require.NoError(t, err)
		response, err := (&http.Client{Transport: s.Port(g.ID, port)}).Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(answer)
	}
	release := func(g tenantSession) {
		t.Helper()
		released, err := s.Release(t.Context(), g.ID, false)
		require.NoError(t, err)
		require.Empty(t, released.Warnings)
	}
	ada := s.claimAs("notebook", "ada")
	require.Contains(t, ask(ada, http.MethodPost, "/run", "x = 40\nprint('sum')\nx + 1"), `"text": "sum\n41\n"`)
	require.Contains(t, ask(ada, http.MethodPost, "/run", "1 / 0"), `"ename": "ZeroDivisionError"`)
	release(ada)
	bob := s.claimAs("notebook", "bob") // there is no room for ada's container
	require.JSONEq(t, `{"cells": 0, "variables": []}`, ask(bob, http.MethodGet, "/", ""))
	release(bob)
	again := s.claimAs("notebook", "ada")
	require.NotEqual(t, ada.Container, again.Container)
	require.JSONEq(t, `{"cells": 2, "variables": ["x"]}`, ask(again, http.MethodGet, "/", ""))
	require.Contains(t, ask(again, http.MethodPost, "/run", "x + 2"), `"text": "42\n"`)
	document := ask(again, http.MethodGet, "/notebook.ipynb", "")
	require.Contains(t, document, `"nbformat": 4`)
	require.Equal(t, 3, strings.Count(document, `"cell_type": "code"`))
}

// A database continues where its tenant left it, in another container, with the
// password of the claim and no other.
func TestExampleServicesDatabase(t *testing.T) {
	t.Parallel()
	servers, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // its package needs that of psql
	require.NoError(t, err)
	if len(servers) == 0 {
		testenv.Skip(t, "postgres", "there is no PostgreSQL in /usr/lib/postgresql")
	}
	psql := filepath.Join(filepath.Dir(servers[0]), "psql")
	port, s, dir := freePort(t), install(t, processBackend{}), shortDir(t)
	s.args = []string{"--credentials-dir", filepath.Join(dir, "credentials")}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "credentials"), 0o700))
	key := base64.StdEncoding.EncodeToString([]byte("an example's key with 32 bytes !"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "credentials/parameters.key"), []byte(key), 0o600))
	text := exampleWithPort(t, "database", port)
	text = strings.ReplaceAll(text, `"database"`, `"`+exampleProgram(t, dir, "database/database")+`"`)
	s.runsAsPostgres(dir)
	s.start()
	s.applyExample("database", text)
	query := func(password, sql string) (string, error) {
		c := exec.CommandContext(t.Context(), psql, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "tenant", "-XAtqc", sql, "tenant")
		c.Env = append(os.Environ(), "PGPASSWORD="+password, "PGOPTIONS=-c client_min_messages=warning")
		out, err := c.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for i, want := range []string{"1", "1\n2"} {
		password := fmt.Sprintf("it's $(password) \\%d", i)
		c, _, err := s.ClaimWith(t.Context(), "database", "ada", client.ClaimOptions{
			Wait: waitTimeout, Parameters: map[string]string{"password": password},
		})
		require.NoError(t, err)
		_, err = query("another password", "SELECT 1")
		require.Error(t, err)
		got, err := query(password, "CREATE TABLE IF NOT EXISTS n (n serial); INSERT INTO n DEFAULT VALUES; SELECT n FROM n ORDER BY n")
		require.NoError(t, err, got)
		require.Equal(t, want, got)
		released, err := s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		require.Empty(t, released.Warnings)
	}
	require.NotContains(t, s.log.String(), "$(password)")
}

// shortDir returns a directory whose path fits into that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// runsAsPostgres makes root's server run as the user postgres, to whom its data and dir
// are given: PostgreSQL refuses root, and the process backend keeps a container's
// programs from becoming another user.
func (s *server) runsAsPostgres(dir string) {
	s.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	owner, err := user.Lookup("postgres")
	require.NoError(s.t, err)
	uid, err := strconv.Atoi(owner.Uid)
	require.NoError(s.t, err)
	s.program = filepath.Join(dir, "hostler")
	wrapper := "#!/bin/sh\nexec setpriv --reuid=postgres --regid=postgres --init-groups -- " + program(s.t, "hostler") + ` "$@"` + "\n"
	require.NoError(s.t, os.WriteFile(s.program, []byte(wrapper), 0o755)) //nolint:gosec // it is executed
	for _, top := range []string{dir, s.data} {
		require.NoError(s.t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, -1)
		}))
	}
}
