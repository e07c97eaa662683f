package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// examplesDir has the files of the cookbook.
const examplesDir = "../examples/hooks"

// example is a file of the cookbook that a server runs.
type example struct {
	*server
	services *services
	id       string
}

// exampleTest is how an example is tested.
type exampleTest struct {
	more  string // added to the hooks of the file, to see what they have done
	check func(*example)
	// anywhere is set if no program of the example has a path, a port or a shell
	// of the container: on the process runtime they are the machine's.
	anywhere bool
}

var exampleTests = map[string]exampleTest{
	"audit":            {check: (*example).audits, anywhere: true},
	"before-start":     {check: (*example).actsAtStart, more: `  post_claim: [{ name: show, command: ["test", "-S", "/tmp/app.sock"] }]`},
	"bounded":          {check: (*example).isBounded, anywhere: true},
	"credential":       {check: (*example).revokesCredential, more: `  pre_destroy: [{ name: show, command: ["cat", "/tmp/key"] }]`},
	"first-tenant":     {check: (*example).preparesOnce, anywhere: true},
	"flush":            {check: (*example).flushes, more: `  post_claim: [{ name: show, command: ["cat", "/data/log"], on_error: continue }]`},
	"migrate":          {check: (*example).migratesOnce, more: `  pre_release: [{ name: show, command: ["cat", "/data/migrations"] }]`},
	"service-registry": {check: (*example).registers, anywhere: true},
	"slack":            {check: (*example).notifies, more: `  post_claim: [{ name: broken, command: ["app", "fail"] }]`, anywhere: true},
	"warm-cache":       {check: (*example).warms, more: `  post_claim: [{ name: show, command: ["wget", "-q", "-O", "-", "http://localhost:8080/seen"] }]`},
}

// Each file of the cookbook does what it says. It is applied as it is, except
// for the image, its programs, and the services.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(examplesDir + "/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(exampleTests), "each file has a test")
	forAnyBackend(t, func(t *testing.T, rt backend) {
		for id, test := range exampleTests {
			if rt.name() == "process" && !test.anywhere {
				continue
			}
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				e := serveExample(t, rt, id)
				e.apply(test.more)
				test.check(e)
				e.releaseAll(id)
				e.deleteWorkload(id)
				e.requireEnds()
			})
		}
	}, dockerBackend{})
}

// serveExample starts a server that has the secrets of the examples.
func serveExample(t *testing.T, rt backend, id string) *example {
	t.Helper()
	e := &example{services: newServices(t), id: id}
	credentials := t.TempDir()
	for _, name := range []string{"registry", "iam"} {
		require.NoError(t, os.Mkdir(filepath.Join(credentials, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(credentials, name, "token"), []byte(name+"-token-1\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(credentials, name, "token.allow"), []byte(id+"@127.0.0.1\n"), 0o600))
	}
	e.server = install(t, rt, "--hooks-allow", "127.0.0.1", "--credentials-dir", credentials)
	e.env = append(e.env, "HOSTLER_SECRET_SLACK_URL="+e.services.URL+"/slack/T0/B0", "HOSTLER_SECRET_AUDIT_KEY="+auditKey)
	e.start()
	return e
}

// apply applies the file, with more at its end.
func (e *example) apply(more string) {
	e.t.Helper()
	source, err := os.ReadFile(filepath.Join(examplesDir, e.id+".yaml"))
	require.NoError(e.t, err)
	command := `["app", "example"]`
	if e.rt.name() == "process" {
		command = `["app", "hang"]`
	}
	text := string(source) + more + "\n"
	text = strings.Replace(text, "image: example/app:1.0\n", "image: "+exampleImage(e.t, e.rt)+"\ncommand: "+command+"\n", 1)
	text = regexp.MustCompile(`https://([a-z]+)\.example`).ReplaceAllString(text, e.services.URL+"/$1")
	if e.rt.name() == "process" {
		text = strings.ReplaceAll(text, `"app"`, `"`+program(e.t, "app")+`"`)
	}
	_, err = e.Apply(e.t.Context(), e.id, []byte(text))
	require.NoError(e.t, err)
}

// claim claims for a tenant.
func (e *example) claim(tenant string) client.Claim {
	e.t.Helper()
	c, _, err := e.Claim(e.t.Context(), e.id, tenant, waitTimeout)
	require.NoError(e.t, err)
	return c
}

// release releases a claim, and destroys a container that is kept for the tenant.
func (e *example) release(c client.Claim) client.Claim {
	e.t.Helper()
	released, err := e.Release(e.t.Context(), c.ID, false)
	require.NoError(e.t, err)
	_, err = e.DestroyContainer(e.t.Context(), c.Container, false)
	require.NoError(e.t, err)
	destroyed := eventsOf(e.id, client.EventContainerDestroyed)
	destroyed.Container = c.Container
	e.awaitEvent(destroyed, 1)
	return released
}

// states returns the states of a claim's or a container's attempts, by hook.
func (e *example) states(f client.RunFilter) map[string][]client.RunState {
	e.t.Helper()
	all := map[string][]client.RunState{}
	for _, r := range e.runsOf(f) {
		all[r.Hook] = append(all[r.Hook], r.State)
	}
	return all
}

// services are the services of the examples. The first part of a path is the
// name of the service.
type services struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	requests []serviceRequest
	refused  map[string]bool // requests that were refused once
}

type serviceRequest struct {
	call   string // method and path
	body   string
	header http.Header
}

// unreliable are the services that refuse the first request of each method.
var unreliable = regexp.MustCompile(`^(PUT /registry|POST /licenses|DELETE /iam)/`)

func newServices(t *testing.T) *services {
	t.Helper()
	s := &services{refused: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body) //nolint:errcheck // the test compares it
		call := q.Method + " " + q.URL.Path
		s.mu.Lock()
		defer s.mu.Unlock()
		if kind := unreliable.FindString(call); kind != "" && !s.refused[kind] {
			s.refused[kind] = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.requests = append(s.requests, serviceRequest{call, string(body), q.Header})
		switch {
		case call == "POST /iam/v1/keys":
			io.WriteString(w, `{"id": "key-1", "key": "access-1"}`) //nolint:errcheck // the client is the test's
		case q.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound) // as after a repetition
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// received returns the requests whose call begins with prefix.
func (s *services) received(prefix string) []serviceRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []serviceRequest
	for _, r := range s.requests {
		if strings.HasPrefix(r.call, prefix) {
			all = append(all, r)
		}
	}
	return all
}

// await waits for n requests whose call begins with prefix.
func (s *services) await(t *testing.T, prefix string, n int) []serviceRequest {
	t.Helper()
	testenv.AwaitTrue(t, fmt.Sprintf("%d times %s", n, prefix), func() bool { return len(s.received(prefix)) >= n })
	return s.received(prefix)
}
