package request

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/internal/testenv"
)

// A secret is what the operator provides under the declared name, and its errors
// have no part of it.
func TestReadSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("canary-outside"), 0o600))
	write("token", "canary-token\n")
	write("registry/token", "canary-deep")
	write("short", "1234567\n")
	write("empty", "\n")
	write("large", strings.Repeat("canary", maxSecretBytes))
	require.NoError(t, os.Symlink("token", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "escape")))
	t.Setenv("HOSTLER_SECRET_A", " canary-env\n")
	t.Setenv("HOSTLER_SECRET_A_ALLOW", "canary@*")
	t.Setenv("HOSTLER_SECRET_SHORT", "1234567")
	t.Setenv("OTHER", "canary-other")

	redactor := new(Redactor)
	secrets := NewSecrets(dir, redactor)
	for from, want := range map[hooks.Secret]string{
		{File: "token"}: "canary-token", {File: "registry/token"}: "canary-deep", {File: "link"}: "canary-token",
		{Env: "HOSTLER_SECRET_A"}: "canary-env",
	} {
		got, err := secrets.Read(from)
		require.NoError(t, err, "%v", from)
		require.Equal(t, want, got.Value)
		require.Equal(t, redacted, redactor.Redact(want))
	}
	for from, want := range map[hooks.Secret]string{
		{}:                              "neither",
		{File: "none"}:                  "no such file",
		{File: "short"}:                 "shorter than 8",
		{File: "empty"}:                 "shorter than 8",
		{File: "large"}:                 "larger than",
		{File: "escape"}:                "escapes",
		{File: "../outside"}:            "escapes",
		{File: outside}:                 "escapes",
		{File: "registry"}:              "directory",
		{Env: "HOSTLER_SECRET_NONE"}:    "has no HOSTLER_SECRET_NONE",
		{Env: "HOSTLER_SECRET_SHORT"}:   "shorter than 8",
		{Env: "OTHER"}:                  "not the name of a secret",
		{Env: "HOSTLER_SECRET_A_ALLOW"}: "not the name of a secret",
	} {
		_, err := secrets.Read(from)
		require.ErrorContains(t, err, want, "%v", from)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, err.Error(), "1234567")
	}
	_, err := NewSecrets("", redactor).Read(hooks.Secret{File: "token"})
	require.ErrorContains(t, err, "no directory of credentials")
}

// A limit names workloads and hosts. An invalid one permits nothing.
func TestSecretLimit(t *testing.T) {
	for _, test := range []struct {
		limit, workload, host string
		want                  bool
	}{
		{"", "any", "any.example", true},
		{"agent-*@registry.example", "agent-a", "registry.example", true},
		{"agent-*@registry.example", "agent-a", "REGISTRY.example.", true},
		{"agent-*@Registry.Example", "agent-a", "registry.example", true},
		{"agent-*@registry.example", "other", "registry.example", false},
		{"agent-*@registry.example", "agent-a", "registry.example.evil.example", false},
		{"agent-*@registry.example", "agent-a", "evil.example", false},
		{"a@x.example, b@*.example\n", "b", "y.example", true},
		{"a@x.example, b@*.example", "a", "y.example", false},
		{"*@*", "any", "any.example", true}, {"@registry.example", "a", "registry.example", false},
		{"registry.example", "a", "registry.example", false}, {"[@*", "[", "a", false}, {" ", "a", "a", false}, {",", "a", "a", false},
		{"a@b@c", "a", "b", false}, {"a@[::1]", "a", "::1", true}, {"a@[::1]", "a", ":", false}, {"a@[::1]", "a", "1", false},
		{"a-*-z@*", "a-b-z", "h", true}, {"a-*-z@*", "a-z", "h", false}, {"*b*d*@h", "abcde", "h", true}, {"*d*b*@h", "abcde", "h", false},
		{"?@h", "a", "h", false}, {"[a-z]@h", "b", "h", false},
	} {
		require.Equal(t, test.want, Secret{limit: test.limit}.Permits(test.workload, test.host), "%v", test)
	}
}

// A secret in a file has a limit, because the credentials of sinks are in the
// same directory. A limit without an entry permits nothing: it may be a file
// that is being written.
func TestSecretWithoutLimit(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"sink": "canary-sink-key", "empty": "canary-0123456789", "empty.allow": "", "open": "canary-0123456789", "open.allow": "*@*"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, name := range []string{"FREE", "EMPTY", "BLANK"} {
		t.Setenv("HOSTLER_SECRET_"+name, "canary-0123456789")
	}
	t.Setenv("HOSTLER_SECRET_EMPTY_ALLOW", "")
	t.Setenv("HOSTLER_SECRET_BLANK_ALLOW", "\n")
	secrets := NewSecrets(dir, new(Redactor))
	for from, want := range map[hooks.Secret]bool{
		{File: "sink"}: false, {File: "empty"}: false, {File: "open"}: true,
		{Env: "HOSTLER_SECRET_FREE"}: true, {Env: "HOSTLER_SECRET_EMPTY"}: false, {Env: "HOSTLER_SECRET_BLANK"}: false,
	} {
		got, err := secrets.Read(from)
		require.NoError(t, err, "%v", from)
		require.Equal(t, want, got.Permits("agent-a", "evil.example"), "%v", from)
	}
	_, err := secrets.Read(hooks.Secret{File: "open.allow"})
	require.ErrorContains(t, err, "is the limit of a secret")
}

// What is not a regular file blocks no attempt.
func TestSecretIsFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("canary-0123456789"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "token.allow"), 0o600))
	x := newExecutor(t, Options{Secrets: NewSecrets(dir, new(Redactor))})
	for _, name := range []string{"pipe", "token"} {
		a := attemptOf(hooks.Request{URL: template(t, "https://registry.example"), Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}})
		a.Secrets = map[string]hooks.Secret{"A": {File: name}}
		results := make(chan runner.Result, 1)
		go func() { results <- x.Execute(t.Context(), a) }()
		res := testenv.Await(t, results, "the attempt with "+name)
		require.ErrorContains(t, res.Err, "a device or a pipe", name)
	}
}

// A secret is sent to the hosts of its limit only, wherever it stands in the
// request and whatever supplies the host.
func TestSecretGoesToItsHosts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("canary-file"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.allow"), []byte("agent-*@127.0.0.1"), 0o600))
	t.Setenv("HOSTLER_SECRET_ENV", "canary-environment")
	t.Setenv("HOSTLER_SECRET_ENV_ALLOW", "agent-*@127.0.0.1")
	r := receive(t, nil)
	t.Setenv("HOSTLER_SECRET_URL", r.URL+"/canary-path")
	t.Setenv("HOSTLER_SECRET_URL_ALLOW", "agent-*@127.0.0.1")
	redactor := new(Redactor)
	x := newExecutor(t, Options{Redactor: redactor, Secrets: NewSecrets(dir, redactor), Allow: []string{"127.0.0.0/8", "localhost"}})
	for _, secret := range []string{"FILE", "ENV"} {
		for name, request := range map[string]hooks.Request{
			"bearer":    {Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: secret}},
			"api key":   {Auth: hooks.Auth{Type: hooks.AuthAPIKey, Secret: secret, Header: "X-Key"}},
			"header":    {Headers: map[string]variables.Template{"X": template(t, "k ${"+secret+"}")}},
			"body":      {Body: bodyOf(t, `{"k": "${`+secret+`}"}`)},
			"path":      {URL: template(t, r.URL+"/${"+secret+"}")},
			"whole URL": {URL: template(t, "${URL}")},
			"user":      {URL: template(t, strings.Replace(r.URL, "//", "//bot:${"+secret+"}@", 1))},
		} {
			if request.URL.String() == "" {
				request.URL = template(t, r.URL)
			}
			a := attemptOf(request)
			a.Secrets = map[string]hooks.Secret{"FILE": {File: "key"}, "ENV": {Env: "HOSTLER_SECRET_ENV"}, "URL": {Env: "HOSTLER_SECRET_URL"}}
			before := len(r.all())
			require.NoError(t, x.Execute(t.Context(), a).Err, name)
			got := r.all()[before]
			require.Regexp(t, "canary|Ym90Om", got.path+got.body+got.header.Get("X-Key")+got.header.Get("X")+got.header.Get("Authorization"), name)

			other := a
			other.Workload = "other"
			requireNotPermitted(t, x.Execute(t.Context(), other), name)
			if name != "whole URL" {
				other = a
				request.URL = template(t, strings.Replace(request.URL.String(), "127.0.0.1", "localhost", 1))
				other.Action = request
				requireNotPermitted(t, x.Execute(t.Context(), other), name)
			}
			require.Len(t, r.all(), before+1, name)
		}
	}
}

func requireNotPermitted(t *testing.T, res runner.Result, name string) {
	t.Helper()
	require.Equal(t, hooks.StartFailed, res.State, name)
	require.ErrorContains(t, res.Err, "does not permit", name)
	require.NotContains(t, res.Err.Error(), "canary")
}

// A secret that was replaced between two attempts is sent as it is now, and the
// former one is still redacted.
func TestReplacedSecret(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	x := newExecutor(t, Options{})
	a := attemptOf(hooks.Request{URL: template(t, r.URL), Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}})
	a.Secrets = map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
	for a.Attempt = 1; a.Attempt <= 2; a.Attempt++ {
		value := strings.Repeat("canary", 1+a.Attempt)
		t.Setenv("HOSTLER_SECRET_A", value)
		x.Execute(t.Context(), a)
		require.Equal(t, "Bearer "+value, r.all()[a.Attempt-1].header.Get("Authorization"))
	}
	require.Equal(t, "••• •••", x.redactor.Redact("canarycanary canarycanarycanary"))
}

// A secret that is not declared, or cannot be read, is not sent as text.
func TestMissingSecret(t *testing.T) {
	r := receive(t, nil)
	x := newExecutor(t, Options{})
	for _, request := range []hooks.Request{
		{Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "NONE"}}, {Webhook: true, Sign: "NONE"},
		{Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "UNSET"}}, {Body: bodyOf(t, "${UNSET}")},
		{Auth: hooks.Auth{Type: "other"}}, {Auth: hooks.Auth{Type: hooks.AuthAPIKey, Secret: "A", Header: "Host"}},
		{Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "LINES"}},
	} {
		t.Setenv("HOSTLER_SECRET_A", "canary-0123456789")
		t.Setenv("HOSTLER_SECRET_LINES", "canary\r\nX: y")
		request.URL = template(t, r.URL)
		a := attemptOf(request)
		a.Secrets = map[string]hooks.Secret{
			"UNSET": {Env: "HOSTLER_SECRET_UNSET"}, "A": {Env: "HOSTLER_SECRET_A"}, "LINES": {Env: "HOSTLER_SECRET_LINES"},
		}
		res := x.Execute(t.Context(), a)
		require.Equal(t, hooks.StartFailed, res.State, "%v", request)
		require.NotContains(t, res.Err.Error(), "canary")
	}
	require.Empty(t, r.all())
}

// Whatever a receiver repeats, and whatever fails, a result has neither a
// secret nor the URL.
func TestResultsHaveNoSecrets(t *testing.T) {
	const canary = `canary/"0123456789"+%41`
	t.Setenv("HOSTLER_SECRET_A", canary)
	var url string
	for status, answer := range map[int]http.HandlerFunc{
		200: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
		500: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		599: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		r := receive(t, func(w http.ResponseWriter, req *http.Request) {
			answer(w, req)
			for _, form := range forms {
				_, _ = w.Write([]byte(form(canary, "", "")))
			}
			_, _ = w.Write([]byte(`{"k": ` + quoted(t, req.Header.Get("X")) + `}`))
		})
		url = r.URL + "/path-of-it?q=${A}"
		x := newExecutor(t, Options{})
		a := attemptOf(hooks.Request{
			URL: template(t, url), Headers: map[string]variables.Template{"X": template(t, "${A}")}, KeepResponse: true,
			Capture: map[string]variables.Path{"K": pathOf(t, "$.k")}, Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"},
		})
		a.Secrets = map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
		res := x.Execute(t.Context(), a)
		text := res.Detail.Response + strings.Join(res.Warnings, "") + res.Captured["K"]
		if res.Err != nil {
			text += res.Err.Error()
			require.NotContains(t, res.Err.Error(), "path-of-it", "%d", status)
		}
		remains(t, canary, text)
	}
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = w.Write([]byte(`{"k": ` + quoted(t, "<"+req.Header.Get("X")+">") + `}`))
	})
	a := attemptOf(hooks.Request{
		URL: template(t, r.URL), Headers: map[string]variables.Template{"X": template(t, "${A}")}, Capture: map[string]variables.Path{"K": pathOf(t, "$.k")},
	})
	a.Secrets = map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
	require.Equal(t, map[string]string{"K": "<•••>"}, newExecutor(t, Options{}).Execute(t.Context(), a).Captured)
}

// A response that ends within a secret has no part of it on record.
func TestHalfSecret(t *testing.T) {
	t.Setenv("HOSTLER_SECRET_A", "canary-0123456789")
	for _, status := range []int{http.StatusOK, http.StatusBadGateway} {
		r := receive(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("got " + req.Header.Get("Authorization")[:len("Bearer canary-0123")]))
		})
		a := attemptOf(hooks.Request{URL: template(t, r.URL), KeepResponse: true, Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}})
		a.Secrets = map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
		require.Equal(t, "got Bearer •••", newExecutor(t, Options{}).Execute(t.Context(), a).Detail.Response, "%d", status)
	}
}

// Who controls a receiver cannot guess the secrets of others: of those that were
// not sent to it, only a whole one is replaced.
func TestSecretsCannotBeGuessed(t *testing.T) {
	const other = "canary-of-a-neighbor"
	x := newExecutor(t, Options{})
	x.redactor.Add(other)
	t.Setenv("HOSTLER_SECRET_A", "0123456789")
	for i := range len(other) - 1 {
		guess := other[:i+1]
		r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(guess))
		})
		a := attemptOf(hooks.Request{URL: template(t, r.URL), KeepResponse: true, Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}})
		a.Secrets = map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
		require.Equal(t, guess, x.Execute(t.Context(), a).Detail.Response)
	}
}

// The user and the password that are sent are secret as the receiver decodes
// them, also if a secret has only a part of them.
func TestUserOfURL(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		_, _ = w.Write([]byte(user + " " + password + " " + req.Header.Get("Authorization")))
	})
	host := strings.TrimPrefix(r.URL, "http://")
	for _, test := range []struct{ secret, url string }{
		{"canary:%63anary-9@", "http://${A}" + host}, {"canary-%63anary@", "http://${A}" + host},
		{"anary%2D0123", "http://c${A}:x@" + host},
	} {
		t.Setenv("HOSTLER_SECRET_A", test.secret)
		a := attemptOf(hooks.Request{URL: template(t, test.url), KeepResponse: true})
		a.Secrets = map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
		res := newExecutor(t, Options{}).Execute(t.Context(), a)
		require.NoError(t, res.Err)
		require.Contains(t, res.Detail.Response, redacted)
		require.NotContains(t, res.Detail.Response, "anary-", test.secret)
		require.NotRegexp(t, "Y2FuYXJ5|YW5hcnk|FuYXJ", res.Detail.Response, test.secret)
	}
}
