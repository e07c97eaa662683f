package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// invalidFile has errors of several kinds.
const invalidFile = `id: Faulty
image: x
comand: [a]
pool: { min_idle: many }
hooks:
  post_claim: [{ command: [a], timeout: soon }]
`

// wantErrors returns the errors of invalidFile with their positions.
func wantErrors() []string {
	return []string{
		":1:5: id: ", ":3:1: comand: ", ":4:19: pool.min_idle: ", ":6:41: hooks.post_claim[0].timeout: ",
	}
}

// Validate, apply and the API report all errors in a file at once, each with its
// position.
func TestInvalidWorkloadFile(t *testing.T) {
	t.Parallel()
	s := serve(t, processBackend{})
	file := filepath.Join(t.TempDir(), "faulty.yaml")
	require.NoError(t, os.WriteFile(file, []byte(invalidFile), 0o600))
	validated, applied := s.cli("validate", file), s.cli("apply", "-f", file)
	require.Equal(t, 1, validated.code)
	require.Equal(t, 1, applied.code)
	require.Equal(t, validated.out, applied.err)
	for _, want := range wantErrors() {
		require.Contains(t, validated.out, file+want)
	}
	require.Contains(t, validated.out, "command", "the hint for the misspelt field")
	require.Equal(t, len(wantErrors()), strings.Count(validated.out, "\n"), validated.out)

	_, err := s.Apply(t.Context(), "faulty", []byte(invalidFile))
	refused := problemOf(t, err)
	require.Equal(t, client.CodeInvalidWorkload, refused.Code)
	require.Len(t, refused.ValidationErrors, len(wantErrors()))
	require.Equal(t, 3, refused.ValidationErrors[1].Line)
	require.Equal(t, "comand", refused.ValidationErrors[1].Field)
	require.NotEmpty(t, refused.ValidationErrors[1].Hint)
}

// Text that is not YAML is rejected, and the server continues.
func TestInvalidYAML(t *testing.T) {
	t.Parallel()
	s := serve(t, processBackend{})
	for _, text := range []string{"id: [a\n", "\tid: a\n", "", "- a\n", "id: a\nid: b\nimage: x\n", "\x00\xff", "a: &a [*a]\n"} {
		got := hostler(t, nil, text, "validate", "-")
		require.Equal(t, 1, got.code, "%q", text)
		require.NotEmpty(t, got.out, "%q", text)
		_, err := s.Apply(t.Context(), "a", []byte(text))
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, problemOf(t, err).Status, "%q: %v", text, err)
	}
}

// problemOf returns the server's error response.
func problemOf(t testing.TB, err error) *client.Error {
	t.Helper()
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	return refused
}

// Commands that are invalid or name missing objects fail with one line that has a
// hint, and with the exit code in the help.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	s := serve(t, processBackend{})
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"claim nothing --tenant ada", 3, "hostler get workloads"},
		{"release nothing", 3, "hostler get claims"},
		{"release --workload nothing --tenant ada", 3, "hostler get claims"},
		{"get container nothing", 3, "hostler get containers"},
		{"get run nothing", 3, "hostler get runs"},
		{"logs nothing", 3, "hostler get runs"},
		{"scale nothing --min-idle 1", 3, "hostler get workloads"},
		{"delete workload nothing", 3, "hostler get workloads"},
		{"claim", 2, "--help"},
		{"claim nothing", 2, "--tenant"},
		{"claim nothing --tenant ada --colour", 2, "--colour"},
		{"claim nothing --tenant ada --wait soon", 2, "soon"},
		{"claim nothing --tenant ada --wait 1h", 2, "5m"},
		{"scale nothing", 2, "--min-idle"},
		{"get pools -o xml", 2, "xml"},
		{"get claims --state sleeping", 2, "sleeping"},
		{"events --type hook.exploded", 1, "hook.exploded"},
		{"frobnicate", 2, "frobnicate"},
		{"apply", 2, "name a FILE"},
		{"apply -f /nowhere.yaml", 1, "/nowhere.yaml"},
		{"validate /nowhere.yaml", 1, "/nowhere.yaml"},
		{"get pools --server http://127.0.0.1:1", 4, "hostler serve"},
		{"get pools --server nonsense", 2, "nonsense"},
		{"serve --listen 127.0.0.1:0 --runtime vms", 2, "docker"},
		{"serve --listen 127.0.0.1:0 --nonsense", 2, "--nonsense"},
		{"serve --listen nonsense", 1, "--listen"},
		{"serve --listen 127.0.0.1:0 --config /nowhere.yaml", 1, "/nowhere.yaml"},
		{"serve --listen 0.0.0.0:0 --runtime process --data /nowhere", 1, "--api-key-file"},
		{"serve --listen 127.0.0.1:0 --runtime process --data " + s.data, 1, "is held by process"},
		{"serve --listen 127.0.0.1:0 --runtime process --data /proc/nowhere", 1, "/proc/nowhere"},
		{"serve --listen " + strings.TrimPrefix(s.base, "http://") + " --runtime process --data /nowhere", 1, "--listen"},
	} {
		t.Run(test.args, func(t *testing.T) {
			got := s.cli(strings.Fields(test.args)...)
			require.Equal(t, test.code, got.code, got.err)
			require.Contains(t, got.err, test.want)
			require.NotContains(t, got.err, "goroutine ")
		})
	}
}

// With API keys every request needs one, except the probes.
func TestAPIKeys(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	const key = "0123456789abcdef-ada"
	require.NoError(t, os.WriteFile(keys, []byte("# of the tests\nada: "+key+"\n"), 0o600))
	s := serve(t, processBackend{}, "--api-key-file", keys, "--listen", "0.0.0.0:0")
	s.base = strings.Replace(s.base, "[::]", "127.0.0.1", 1)
	for _, test := range []struct {
		key  string
		code int
	}{{"", 6}, {key + "x", 6}, {key, 0}} {
		got := hostler(t, []string{"HOSTLER_SERVER=" + s.base, "HOSTLER_API_KEY=" + test.key}, "", "get", "pools")
		require.Equal(t, test.code, got.code, got.err)
	}
	require.Zero(t, s.cli("get", "pools", "--api-key-file", keys).code)
	keyless, err := client.New(s.base, "")
	require.NoError(t, err)
	_, err = keyless.Health(t.Context())
	require.NoError(t, err)
	_, err = keyless.Pools(t.Context())
	require.Equal(t, http.StatusUnauthorized, problemOf(t, err).Status)
}

// A hook with a missing program or user fails the claim when it starts, because
// validation cannot detect it.
func TestHookStartError(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		for id, hook := range map[string]string{
			"program": "command: [/no/such/program]",
			"user":    "command: [BOX, echo], user: no-such-user",
		} {
			s.apply(id, "pool: { min_idle: 0, max_size: 1 }\nhooks: { post_claim: [{ "+hook+", on_error: retry, retries: 3 }] }\n")
			_, _, err := s.Claim(t.Context(), id, "ada", waitTimeout)
			refused := problemOf(t, err)
			require.Equal(t, client.CodeHookFailed, refused.Code)
			require.Equal(t, "start_failed", string(refused.Run.State))
			require.Contains(t, refused.Detail, strings.Trim(strings.Fields(hook)[len(strings.Fields(hook))-1], "[],"))
			require.Len(t, s.events(eventsOf(id, client.EventHookStarted)), 1, "a start error is not retried")
			s.deleteWorkload(id)
		}
		s.requireEnds()
		s.requireNothingLeft()
	})
}

// A missing image fails the pool and not the server.
func TestMissingImage(t *testing.T) {
	t.Parallel()
	forEachEngine(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		text := "id: ghost\nimage: 127.0.0.1:1/no/such:image\ncommand: [/x]\npool: { min_idle: 1, max_size: 1 }\n"
		_, err := s.Apply(t.Context(), "ghost", []byte(text))
		require.NoError(t, err)
		require.Contains(t, s.awaitEvent(eventsOf("ghost", client.EventPoolWarning), 1).Message, "127.0.0.1:1/no/such:image")
		require.Regexp(t, "backing_off|failing", s.mustCLI("get", "pools"))
		// From the fifth failure on, that is the reason also while it is tried again.
		s.awaitEvent(eventsOf("ghost", client.EventPoolWarning), 5)
		_, _, err = s.Claim(t.Context(), "ghost", "ada", 0)
		refused := problemOf(t, err)
		require.Equal(t, client.CodePoolNotReady, refused.Code)
		require.Equal(t, "fill_failing", refused.Reason)
		s.deleteWorkload("ghost")
		s.requireNothingLeft()
	})
}
