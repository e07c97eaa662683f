package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/e2e/flowtest"
)

// serveContainer serves a claim of a container, and points the command line at it.
func serveContainer(t *testing.T) (claim string) {
	t.Helper()
	t.Setenv("HOSTLER_API_KEY", "")
	t.Setenv("HOSTLER_API_KEY_FILE", "")
	h := flowtest.New(t)
	h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 2 }\n")
	o := apitest.New().Options()
	o.Access = h.Access(nil)
	a := api.New(o)
	server := httptest.NewServer(a)
	t.Cleanup(func() { a.Close(); server.Close() })
	t.Setenv("HOSTLER_SERVER", server.URL)
	return h.Claim("w", "ada").ID
}

// A command has the input, the output and the exit status of the one in the
// container.
func TestExecIsTheCommand(t *testing.T) {
	claim := serveContainer(t)
	code, out, errOut := hostler(t, "hello", "exec", claim, "--", "box", "cat")
	require.Equal(t, []any{0, "hello", ""}, []any{code, out, errOut})
	code, _, errOut = hostler(t, "", "exec", claim, "--", "box", "exit", "3")
	require.Equal(t, []any{3, ""}, []any{code, errOut})
	code, _, errOut = hostler(t, "", "exec", claim, "--timeout", "50ms", "--", "box", "hang")
	require.Equal(t, exitCommandTimeout, code, errOut)
	code, out, _ = hostler(t, "", "exec", claim, "-e", "A=b=c", "--", "box", "env", "A")
	require.Equal(t, []any{0, "b=c\n"}, []any{code, out})
	code, _, errOut = hostler(t, "", "exec", claim, "--", "nope")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "nope")
}

// A detached command is listed, attached to and killed.
func TestExecDetached(t *testing.T) {
	claim := serveContainer(t)
	code, out, errOut := hostler(t, "", "exec", claim, "--detach", "--", "box", "hang")
	require.Equal(t, exitOK, code, errOut)
	id := strings.TrimSpace(out)
	code, out, _ = hostler(t, "", "get", "commands", claim)
	require.Equal(t, exitOK, code)
	require.Contains(t, out, id+"   running")
	code, out, errOut = hostler(t, "", "kill", claim, id)
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "command "+id+" SIGTERM\n", out)
	code, _, _ = hostler(t, "", "exec", claim, "--attach", id)
	require.Equal(t, 143, code)
	code, _, errOut = hostler(t, "", "kill", claim, "none", "--signal", "SIGINT")
	require.Equal(t, exitNotFound, code)
	require.Contains(t, errOut, "get commands")
}

// What the flags cannot mean is a usage error.
func TestExecUsage(t *testing.T) {
	claim := serveContainer(t)
	for _, args := range []string{
		"exec", "exec C", "exec C --attach x -- ls", "exec C -t -- ls", "exec C -d -i -- ls", "exec C -e A -- ls",
		"exec C --detach-keys ctrl-1 -- ls", "exec C --detach-keys ab -- ls", "kill C", "get commands",
	} {
		code, _, errOut := hostler(t, "", strings.Fields(strings.ReplaceAll(args, "C", claim))...)
		require.Equal(t, exitUsage, code, "%s: %s", args, errOut)
	}
}

// The detach keys are found wherever the input is cut, and other input is passed on
// as it is.
func TestDetachKeys(t *testing.T) {
	for _, tt := range []struct {
		keys, want string
		found      bool
		input      []string
	}{
		{"ctrl-p,ctrl-q", "ab", true, []string{"a", "b\x10", "\x11c"}},
		{"ctrl-p,ctrl-q", "a\x10b", false, []string{"a\x10", "b"}},
		{"ctrl-p,ctrl-q", "\x10", true, []string{"\x10\x10\x11"}},
		{"a,a,b", "a", true, []string{"aa", "ab"}},
		{"a,b,a,c", "ab", true, []string{"ababac"}},
		{"", "\x10\x11", false, []string{"\x10\x11"}},
	} {
		sequence, err := parseKeys(tt.keys)
		require.NoError(t, err)
		keys, got, found := detachKeys{sequence: sequence}, "", false
		for _, part := range tt.input {
			text, is := keys.filter([]byte(part))
			got, found = got+string(text), found || is
		}
		require.Equal(t, tt.want, got, "%+v", tt)
		require.Equal(t, tt.found, found, "%+v", tt)
	}
}
