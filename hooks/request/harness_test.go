package request

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
)

// receiver is a server of the tests that keeps what it received.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex // guards requests
	requests []received
}

type received struct {
	method, path, query, host, body string
	header                          http.Header
}

// receive starts a receiver that answers with handler; nil: with 200.
func receive(t *testing.T, handler http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r.keep(handler))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) keep(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		body := new(strings.Builder)
		_, _ = copyTo(body, req)
		r.mu.Lock()
		r.requests = append(r.requests, received{
			req.Method, req.URL.EscapedPath(), req.URL.RawQuery, req.Host, body.String(), req.Header,
		})
		r.mu.Unlock()
		if handler != nil {
			handler(w, req)
		}
	}
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.requests...)
}

// one returns the only request that was received.
func (r *receiver) one(t *testing.T) received {
	t.Helper()
	all := r.all()
	require.Len(t, all, 1)
	return all[0]
}

// newExecutor returns an executor that may also send to this machine.
func newExecutor(t *testing.T, o Options) *Executor {
	t.Helper()
	if o.Allow == nil {
		o.Allow = []string{"127.0.0.1"}
	}
	x, err := New(o)
	require.NoError(t, err)
	t.Cleanup(x.Close)
	return x
}

func template(t *testing.T, text string) variables.Template {
	t.Helper()
	parsed, err := variables.ParseTemplate(text)
	require.NoError(t, err)
	return parsed
}

func bodyOf(t *testing.T, text string) *variables.Template {
	t.Helper()
	parsed := template(t, text)
	return &parsed
}

func pathOf(t *testing.T, text string) variables.Path {
	t.Helper()
	p, err := variables.ParsePath(text)
	require.NoError(t, err)
	return p
}

// attemptOf returns the first attempt of a request.
func attemptOf(r hooks.Request) runner.Attempt {
	return runner.Attempt{
		Action: r, Timeout: 5 * time.Minute, Envelope: []byte(`{"type":"claim.released","seq":7}`),
		Context: runner.Context{
			Run: "run-1", Attempt: 1, Hook: "register", Point: hooks.PostClaim, Workload: "agent-a",
			Container: "c-1", Claim: "claim-1", Tenant: "t-1",
		},
	}
}

// send performs the first attempt of a request.
func send(t *testing.T, x *Executor, r hooks.Request) runner.Result {
	t.Helper()
	return x.Execute(t.Context(), attemptOf(r))
}

// values returns a lookup of untrusted values.
func values(list map[string]string) variables.Lookup {
	return func(name string) (variables.Value, bool) {
		text, ok := list[name]
		return variables.Value{Text: text, Class: variables.Untrusted}, ok
	}
}

// ending returns what a result means for the policy of its hook.
func ending(x *Executor, res runner.Result) runner.Ending {
	return x.Ending(hooks.Run{State: res.State, Detail: res.Detail})
}

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}
