package kubernetes_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
)

// apiProxy is a proxy of the API server that can intercept requests.
type apiProxy struct {
	*httptest.Server
	intercept atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

// newAPIProxy opens a backend that reaches the cluster through a proxy.
func newAPIProxy(t *testing.T) (*apiProxy, *kubernetes.Runtime) {
	t.Helper()
	c := needCluster(t)
	target, err := url.Parse(c.Config.Host)
	require.NoError(t, err)
	config := rest.CopyConfig(c.Config)
	config.NextProtos = []string{"http/1.1"} // connections are hijacked
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	f := &apiProxy{}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if intercept := f.intercept.Load(); intercept != nil && (*intercept)(w, r) {
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	f.Listener = &trackingListener{Listener: f.Listener, f: f}
	f.Start()
	t.Cleanup(func() {
		f.disconnect()
		f.Close()
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "`+f.URL+`"}}]
users: [{name: u, user: {}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`), 0o600))
	return f, openRuntime(t, func(o *kubernetes.Options) { o.Kubeconfig = file })
}

// trackingListener records each connection of a proxy.
type trackingListener struct {
	net.Listener
	f *apiProxy
}

func (a *trackingListener) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.f.mu.Lock()
		defer a.f.mu.Unlock()
		a.f.conns = append(a.f.conns, conn)
	}
	return conn, err
}

// disconnect closes all connections, including hijacked ones.
func (f *apiProxy) disconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
}

// setIntercept makes the proxy intercept requests; nil ends that.
func (f *apiProxy) setIntercept(intercept func(w http.ResponseWriter, r *http.Request) bool) {
	if intercept == nil {
		f.intercept.Store(nil)
		return
	}
	f.intercept.Store(&intercept)
}

// respond responds with a code and an empty body.
func respond(w http.ResponseWriter, code int) bool {
	w.WriteHeader(code)
	return true
}

// If WebSocket is not available, because of the server's version, its rules or a
// proxy, the older protocol is used.
func TestSPDYFallback(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"no upgrade": 400, "forbidden": 403, "no such method": 405} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, rt := newAPIProxy(t)
			var rejected, served atomic.Int32
			f.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/exec") {
					return false
				}
				if r.Method == http.MethodGet {
					rejected.Add(1)
					return respond(w, code)
				}
				served.Add(1)
				return false
			})
			id := startContainer(t, rt)
			require.Equal(t, "hello\n", mustExec(t, rt, id, "/box", "echo", "hello"))
			require.NoError(t, rt.CopyIn(t.Context(), id, "/data", 0, strings.NewReader(string(rootfs(t, map[string]string{"file": "x"})))))
			require.Equal(t, "x", mustExec(t, rt, id, "/box", "read", "/data/file"))
			require.ErrorIs(t, rt.CopyIn(t.Context(), id, "/data", 0, strings.NewReader("no tar at all")), runtime.ErrBadArchive)
			_, err := rt.CopyOut(t.Context(), id, "/no/such")
			require.ErrorIs(t, err, runtime.ErrFileNotFound)
			require.Positive(t, rejected.Load())
			require.Positive(t, served.Load())
		})
	}
}

// A server that is briefly busy, or fails, only causes a delay.
func TestServerErrorsAreRetried(t *testing.T) {
	t.Parallel()
	f, rt := newAPIProxy(t)
	var count atomic.Int32
	f.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.RawQuery, "watch=") || strings.HasSuffix(r.URL.Path, "/exec") || count.Add(1)%2 == 0 {
			return false
		}
		code := []int{429, 500, 503, 504, 502}[count.Load()/2%5]
		if code == 429 || code == 503 {
			w.Header().Set("Retry-After", "1")
		}
		return respond(w, code)
	})
	id := startContainer(t, rt)
	require.Equal(t, "hello\n", mustExec(t, rt, id, "/box", "echo", "hello"))
	require.NoError(t, rt.Destroy(t.Context(), id))
	require.Positive(t, count.Load())
}

// A lost server is reported as unavailable; open sessions continue when it is
// available again, and its loss never counts as the exit of a container.
func TestServerOutage(t *testing.T) {
	t.Parallel()
	f, rt := newAPIProxy(t)
	id := startContainer(t, rt)
	require.Equal(t, "hello\n", mustExec(t, rt, id, "/box", "echo", "hello"))
	watching := make(chan error, 1)
	ready := make(chan struct{})
	go func() { // ends with the outage
		watching <- rt.Watch(t.Context(), func() { close(ready) }, func(runtime.Exit) {})
	}()
	<-ready
	done := make(chan error, 1)
	go func() { // ends with the command, after the outage
		result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "hang", "through"}, Timeout: 10 * time.Minute})
		if err == nil && result.Signal != "SIGTERM" {
			err = io.ErrUnexpectedEOF
		}
		done <- err
	}()
	var pid string
	testenv.AwaitTrue(t, "the command to run", func() bool {
		pid, _, _ = strings.Cut(mustExec(t, rt, id, "/box", "ps", "through"), " ")
		return pid != ""
	})

	f.setIntercept(func(w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) })
	f.disconnect()
	require.ErrorIs(t, <-watching, runtime.ErrUnavailable, "Watch")
	calls := map[string]func() error{
		"Ping":    func() error { return rt.Ping(t.Context()) },
		"Status":  func() error { _, err := rt.Status(t.Context(), id); return err },
		"List":    func() error { _, err := rt.List(t.Context()); return err },
		"Logs":    func() error { _, err := rt.Logs(t.Context(), id, time.Time{}, 10); return err },
		"Create":  func() error { return rt.Create(t.Context(), newSpec(t)) },
		"Start":   func() error { return rt.Start(t.Context(), id, 1) },
		"Destroy": func() error { return rt.Destroy(t.Context(), id) },
		"Put":     func() error { return rt.CopyIn(t.Context(), id, "/data", 0, strings.NewReader("")) },
		"Get":     func() error { _, err := rt.CopyOut(t.Context(), id, "/data"); return err },
		"Watch":   func() error { return rt.Watch(t.Context(), func() {}, func(runtime.Exit) {}) },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), runtime.ErrUnavailable, name)
	}
	// A session repeats a request that it has begun, for as long as the caller
	// waits.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := rt.Exec(ctx, id, runtime.Command{Args: []string{"/box", "exit", "0"}})
	require.Error(t, err)
	require.Error(t, rt.Restart(ctx, id, 1))
	f.setIntercept(nil)
	mustExec(t, rt, id, "/box", "kill", pid, "TERM")
	require.NoError(t, <-done, "the command that ran all the time")
	require.Equal(t, "hello\n", mustExec(t, rt, id, "/box", "echo", "hello"))
}

// If a server cannot stream the existing pods, they are listed first: nothing
// else changes.
func TestServerWithoutWatchList(t *testing.T) {
	t.Parallel()
	f, rt := newAPIProxy(t)
	var rejected, listed atomic.Int32
	f.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("sendInitialEvents") != "" {
			rejected.Add(1)
			return respond(w, 422)
		}
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods") && r.URL.Query().Get("watch") == "" {
			listed.Add(1)
		}
		return false
	})
	id := startContainer(t, rt)
	exits := watchExits(t, rt, id)
	require.Equal(t, "hello\n", mustExec(t, rt, id, "/box", "echo", "hello"))
	require.NoError(t, rt.Destroy(t.Context(), id))
	awaitExit(t, exits)
	require.Positive(t, rejected.Load())
	require.Positive(t, listed.Load())
}
