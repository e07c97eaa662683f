package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/hostler/hostler/internal/testenv"
)

// apiFrontend is a proxy of the cluster's API server. It sees every request, and
// may answer it or change it.
type apiFrontend struct {
	// intercept is called before each request is forwarded. It reports whether
	// it has answered the request.
	intercept func(n int, w http.ResponseWriter, r *http.Request) (answered bool)

	mu       sync.Mutex // guards requests
	requests []string
}

// newFrontend configures an installation's server to use a new frontend. With a
// nil intercept the frontend only forwards.
func newFrontend(t testing.TB, s *server, intercept func(n int, w http.ResponseWriter, r *http.Request) bool) *apiFrontend {
	t.Helper()
	c, err := localCluster()
	require.NoError(t, err)
	to, err := url.Parse(c.Config.Host)
	require.NoError(t, err)
	tls, err := rest.TLSConfigFor(c.Config)
	require.NoError(t, err)
	pass := httputil.NewSingleHostReverseProxy(to)
	// HTTP/2 is off because it does not support the sessions.
	pass.Transport = &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: false}
	pass.FlushInterval = -1
	pass.ErrorLog = log.New(io.Discard, "", 0) // connections that their clients closed
	f := &apiFrontend{intercept: intercept}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := f.record(r); f.intercept != nil && f.intercept(n, w, r) {
			return
		}
		pass.ServeHTTP(w, r)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go server.Serve(listener) //nolint:errcheck // it returns ErrServerClosed
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	s.args = append(s.args, "--kubeconfig", kubeconfigFor(t, "http://"+listener.Addr().String()))
	return f
}

// record records a request and returns how many there were.
func (f *apiFrontend) record(r *http.Request) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	return len(f.requests)
}

// since returns the requests after the first n.
func (f *apiFrontend) since(n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.requests[n:]...)
}

// awaitQuiet waits until there has been no request for five seconds, so that the
// creation of containers has ended, and returns the number of requests.
func (f *apiFrontend) awaitQuiet(t testing.TB) int {
	t.Helper()
	last := 0
	testenv.AwaitTrue(t, "the end of requests to the API server", func() bool {
		before := last
		last = len(f.since(0))
		return last == before
	})
	return last
}

// respondError answers like an API server that is overloaded or fails.
func respondError(w http.ResponseWriter, code int, reason string, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"so the test wants it"}`, reason, code)
}

// podCodec decodes pods in any encoding.
var podCodec = func() k8sruntime.Decoder {
	scheme := k8sruntime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// changePod changes a pod in a create request, as a cluster's admission webhooks
// do.
func changePod(r *http.Request, change func(*corev1.Pod)) error {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	object, _, err := podCodec.Decode(body, nil, &corev1.Pod{})
	if err != nil {
		return err
	}
	p := object.(*corev1.Pod)
	change(p)
	p.APIVersion, p.Kind = "v1", "Pod"
	if body, err = json.Marshal(p); err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}
