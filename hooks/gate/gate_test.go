package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// bench has a Service and what it was told to record.
type bench struct {
	*Service
	revisions revisions
	mu        sync.Mutex // guards the fields below
	recorded  []hooks.Run
	refused   int
}

type revisions struct {
	w   *workload.Workload
	err error
}

func (r revisions) Revision(context.Context, string, string) (*workload.Workload, pool.Record, error) {
	return r.w, pool.Record{}, r.err
}

// noRecords is a recorder without records.
type noRecords struct{ hooks.Recorder }

func (noRecords) Runs(context.Context, hooks.RunFilter) ([]hooks.Run, error) { return nil, nil }

func newBench(t *testing.T) *bench {
	t.Helper()
	requests, err := request.New(request.Options{Allow: []string{"127.0.0.1"}})
	require.NoError(t, err)
	t.Cleanup(requests.Close)
	log := slog.New(slog.DiscardHandler)
	b := &bench{}
	b.Service = New(Options{
		Revisions: &b.revisions, Attempt: runner.New(nil, noRecords{}, nil, nil).EventAttempt,
		Executors: runner.Executors{hooks.KindHTTP: requests}, Builtins: builtin.NewExecutor(log),
		Redact: requests.Redactor().Redact, AddSecrets: requests.AddSecrets, Log: log,
		OnRefused: func(hooks.Run) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.refused++
		},
		Record: func(_ context.Context, r hooks.Run) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.recorded = append(b.recorded, r)
			return nil
		},
	})
	return b
}

// grant returns a grant for a workload whose file has some lines.
func grant(t *testing.T, lines string) access.Grant {
	t.Helper()
	w, err := workload.Parse([]byte("id: w\nimage: i\n"+lines), "w.yaml")
	require.NoError(t, err, lines)
	return access.Grant{Workload: w, Claim: claim.Claim{ID: "claim-1", Workload: "w", Tenant: "t", Container: "c-1", Revision: "r"}}
}

// receive starts a server that decides.
func receive(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func asks(url, more string) string {
	return fmt.Sprintf("hooks: {exec.before: [{name: ask, http: {url: '%s'}%s}]}", url, more)
}

var list = access.CommandUse{ID: "x-1", Args: []string{"/bin/ls", "-l"}, Environment: map[string]string{"A": "b"}, Workdir: "/w", User: "1000"}

func requireDenied(t *testing.T, err error) *access.DeniedError {
	t.Helper()
	denied, ok := errors.AsType[*access.DeniedError](err)
	require.True(t, ok, "%v", err)
	return denied
}

// Only a 2xx response with the decision allow allows. Whatever else happens refuses,
// and the tenant reads no detail of the operator's network.
func TestOnlyAllowAllows(t *testing.T) {
	const allow = `{"decision": "allow"}`
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		message string // of the refusal; empty: it is allowed
	}{
		"allow":                    {reply(200, allow), ""},
		"allow with 201":           {reply(201, `{"decision": "allow", "message": "m"}`), ""},
		"deny":                     {reply(200, `{"decision": "deny", "message": "not today"}`), "not today"},
		"deny with 403":            {reply(403, `{"decision": "deny", "message": "not today"}`), "not today"},
		"deny without a message":   {reply(200, `{"decision": "deny"}`), "it is not allowed"},
		"allow with 403":           {reply(403, allow), "it could not decide: it failed"},
		"allow with 500":           {reply(500, allow), "it could not decide: it failed"},
		"allow with 302":           {reply(302, allow), "it could not decide: it failed"},
		"allow with 204":           {reply(204, ""), "it could not decide: it failed"},
		"another decision":         {reply(200, `{"decision": "allowed"}`), "it could not decide: it failed"},
		"another case":             {reply(200, `{"Decision": "allow"}`), "it could not decide: it failed"},
		"a list":                   {reply(200, `{"decision": ["allow"]}`), "it could not decide: it failed"},
		"true":                     {reply(200, `{"decision": true}`), "it could not decide: it failed"},
		"null":                     {reply(200, `{"decision": null}`), "it could not decide: it failed"},
		"text":                     {reply(200, `allow`), "it could not decide: it failed"},
		"a JSON text":              {reply(200, `"allow"`), "it could not decide: it failed"},
		"nothing":                  {reply(200, ``), "it could not decide: it failed"},
		"more than an object":      {reply(200, allow+"x"), "it could not decide: it failed"},
		"half an object":           {reply(200, `{"decision": "allow"`), "it could not decide: it failed"},
		"more than is read":        {reply(200, `{"decision": "allow", "x": "`+strings.Repeat("x", 5000)+`"}`), "it could not decide: it failed"},
		"a connection that breaks": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "it could not decide: it failed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			err := b.Exec(t.Context(), grant(t, asks(receive(t, test.handler), "")), list)
			if test.message == "" {
				require.NoError(t, err)
				require.Empty(t, b.recorded)
				return
			}
			require.Equal(t, &access.DeniedError{Gate: "exec.before", Hook: "ask", Message: test.message}, requireDenied(t, err))
			require.Len(t, b.recorded, 1)
			require.Equal(t, 1, b.refused)
			run := b.recorded[0]
			require.Equal(t, hooks.Deny, run.Decision)
			require.Equal(t, []any{hooks.Point("exec.before"), "ask", hooks.KindHTTP, "w", "c-1", "claim-1", "t", hooks.Failed},
				[]any{run.Point, run.Hook, run.Kind, run.Workload, run.Container, run.Claim, run.Tenant, run.State})
			require.NotNil(t, run.EndedAt)
			require.Empty(t, run.Response)
		})
	}
}

// A hook that cannot ask refuses.
func TestFailuresDeny(t *testing.T) {
	blocked := make(chan struct{})
	slow := receive(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-blocked:
		case <-r.Context().Done():
		}
	})
	defer close(blocked)
	allow := receive(t, reply(200, `{"decision": "allow"}`))
	for name, test := range map[string]struct {
		lines   string
		change  func(b *bench)
		state   hooks.RunState
		message string
	}{
		"timeout":              {asks(slow, ", timeout: 50ms"), nil, hooks.TimedOut, "it could not decide: it took too long"},
		"refused address":      {asks("http://127.0.0.2:1/", ""), nil, hooks.StartFailed, "it could not decide: it could not be asked"},
		"missing secret":       {"secrets: {A: {env: HOSTLER_SECRET_GATE_MISSING}}\n" + strings.Replace(asks(allow, ""), "'}", "', headers: {X: '${A}'}}", 1), nil, hooks.StartFailed, "it could not decide: it could not be asked"},
		"panic of the request": {asks(allow, ""), func(b *bench) { b.o.Executors = runner.Executors{hooks.KindHTTP: panics{}} }, hooks.Unknown, "it could not decide: it failed"},
		"panic":                {asks(allow, ""), func(b *bench) { b.o.Attempt = nil }, hooks.Failed, "it could not decide: it failed"},
		"no executor":          {asks(allow, ""), func(b *bench) { b.o.Executors = nil }, hooks.StartFailed, "it could not decide: it could not be asked"},
		"no attempt": {asks(allow, ""), func(b *bench) {
			b.o.Attempt = func(context.Context, hooks.Hook, hooks.Run, *workload.Workload, runner.Envelope) (runner.Attempt, error) {
				return runner.Attempt{}, errors.New("the database is unavailable")
			}
		}, hooks.StartFailed, "it could not decide: it could not be asked"},
		"a result of an unknown kind": {asks(allow, ""), func(b *bench) { b.o.Executors = runner.Executors{hooks.KindHTTP: silent{}} }, hooks.Failed, "it could not decide: it failed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if test.change != nil {
				test.change(b)
			}
			denied := requireDenied(t, b.Exec(t.Context(), grant(t, test.lines), list))
			require.Equal(t, test.message, denied.Message)
			require.Len(t, b.recorded, 1)
			require.Equal(t, test.state, b.recorded[0].State)
		})
	}
}

type panics struct{ runner.Executor }

func (panics) Execute(context.Context, runner.Attempt) runner.Result { panic("x") }

// silent returns a success without a response.
type silent struct{ runner.Executor }

func (silent) Execute(context.Context, runner.Attempt) runner.Result {
	return runner.Result{State: hooks.Succeeded}
}

// A workload that cannot be read refuses; that of the container's revision decides if
// none is applied any more.
func TestWorkloadOfRevision(t *testing.T) {
	b := newBench(t)
	g := grant(t, "hooks: {exec.before: [guard_destructive]}")
	b.revisions.w, g.Workload = g.Workload, nil
	require.NoError(t, b.Exec(t.Context(), g, list))
	require.ErrorAs(t, b.Exec(t.Context(), g, access.CommandUse{Args: []string{"rm", "-rf", "/"}}), new(*access.DeniedError))
	for _, r := range []revisions{{nil, pool.ErrWorkloadNotFound}, {nil, nil}, {b.revisions.w, errors.New("unavailable")}} {
		b.revisions = r
		require.NotEmpty(t, requireDenied(t, b.Exec(t.Context(), g, list)).Message)
	}
}

// All hooks must allow, in the order of the file; those that are disabled or whose
// condition is false are not asked.
func TestEveryHookMustAllow(t *testing.T) {
	b := newBench(t)
	guarded := func(more string) access.Grant {
		return grant(t, "hooks: {exec.before: [log, guard_destructive"+more+"]}")
	}
	require.NoError(t, b.Exec(t.Context(), guarded(", log"), list))
	destroys := access.CommandUse{Args: []string{"sh", "-c", "rm -fr /x"}}
	denied := requireDenied(t, b.Exec(t.Context(), guarded(", log"), destroys))
	require.Equal(t, "exec.before[1]", denied.Hook)
	require.Contains(t, denied.Message, "rm -rf")
	require.NoError(t, b.Exec(t.Context(), grant(t, "hooks: {exec.before: [{builtin: guard_destructive, enabled: false}]}"), destroys))
	require.NoError(t, b.Exec(t.Context(), grant(t, "hooks: {exec.before: [{builtin: guard_destructive, condition: TENANT_ID == other}]}"), destroys))
	requireDenied(t, b.Exec(t.Context(), grant(t, "hooks: {exec.before: [{builtin: guard_destructive, condition: TENANT_ID == t}]}"), destroys))
	require.NoError(t, b.Request(t.Context(), guarded(""), access.PortUse{Port: 1}), "another gate has no hooks")
}

// guard_paths limits files to directories, whose links the container resolves, and
// where commands start.
func TestPaths(t *testing.T) {
	b := newBench(t)
	const both = "hooks: {file.before: [guard_paths, {builtin: guard_paths, with: {allowed: [/w/a, /b]}}]}"
	for _, test := range []struct {
		lines, path string
		want        []string // nil: denied
	}{
		{"workspace: /w\nsecure: true", "/w/a", []string{"/w"}},
		{"workspace: /w\nsecure: true", "/w", []string{"/w"}},
		{"workspace: /w\nsecure: true", "/wa", nil},
		{"workspace: /w\nsecure: true", "/w/../etc/passwd", nil},
		{"workspace: /w\nsecure: true", "w/a", nil},
		{"workspace: /w\nsecure: true", "/etc/passwd", nil},
		{"volumes: {state: {target: /s}}\nsecure: true", "/s/a/../b", []string{"/s"}},
		{"hooks: {file.before: [{builtin: guard_paths, with: {allowed: [/a, /b]}}]}", "/b/c", []string{"/a", "/b"}},
		{"workspace: /w\n" + both, "/w/a/b", []string{"/w/a"}},
		{"workspace: /w\n" + both, "/w/b", nil},
		{"workspace: /x\n" + both, "/x/b", nil},
	} {
		within, err := b.File(t.Context(), grant(t, test.lines), access.FileUse{Action: access.FileRead, Path: test.path})
		if test.want == nil {
			require.Equal(t, "file.before", requireDenied(t, err).Gate, test.path)
			continue
		}
		require.NoError(t, err, test.path)
		require.Equal(t, test.want, within)
	}
	for workdir, allowed := range map[string]bool{"": true, "/w": true, "/w/x": true, "/": false, "/wx": false, "/w/l/../x": false, "/w/..": false, "w": false} {
		err := b.Exec(t.Context(), grant(t, "workspace: /w\nhooks: {exec.before: [guard_paths]}"), access.CommandUse{Args: []string{"ls"}, Workdir: workdir})
		require.Equal(t, allowed, err == nil, workdir)
	}
}

// A tenant reads at most 500 characters on one line.
func TestMessagesAreClean(t *testing.T) {
	b := newBench(t)
	text, err := json.Marshal(map[string]string{"decision": "deny", "message": " a\x00\x1b[31m\nb\u202e" + strings.Repeat("é", 2000)})
	require.NoError(t, err)
	url := receive(t, reply(200, string(text[:0])+string(text)))
	message := requireDenied(t, b.Exec(t.Context(), grant(t, asks(url, "")), list)).Message
	require.LessOrEqual(t, len([]rune(message)), 500)
	long := clean(" a\x00\x1b[31m\nb\u202e" + strings.Repeat("é", 2000))
	require.Len(t, []rune(long), 499, "without the leading space")
	require.True(t, strings.HasPrefix(long, "a[31m bé"), long)
	require.Equal(t, "it is not allowed", clean("\x00 \n"))
}

// A request that ends while its gate is asked is no refusal.
func TestEndedRequestIsNoRefusal(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	url := receive(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client is gone
		cancel()
		<-r.Context().Done()
	})
	err := b.Exec(ctx, grant(t, asks(url, "")), list)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, b.recorded)
}
