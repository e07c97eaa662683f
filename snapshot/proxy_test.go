package snapshot_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// proxy is a proxy in front of a provider's server. It forwards requests and
// answers, unless the test intercepts them.
type proxy struct {
	*httptest.Server
	to http.Handler
	// intercept, if set, answers instead of the server when it returns true.
	intercept atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	lists     atomic.Int32 // number of list requests
	creates   atomic.Int32 // number of create requests
}

func newProxy(t testing.TB, to http.Handler) *proxy {
	w := &proxy{to: to}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// forward sets the server to which requests are forwarded.
func forward(t testing.TB, address string) http.Handler {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	p := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
		r.Out.Host = r.In.Host // it is part of the signature
	}}
	return p
}

func (w *proxy) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if isList(r) {
		w.lists.Add(1)
	}
	if isCreate(r) {
		w.creates.Add(1)
	}
	if f := w.intercept.Load(); f != nil && (*f)(rw, r) {
		return
	}
	w.to.ServeHTTP(rw, r)
}

// setIntercept sets a function that is called for each request.
func (w *proxy) setIntercept(f func(http.ResponseWriter, *http.Request) bool) { w.intercept.Store(&f) }

// clearIntercept removes the function that setIntercept has set.
func (w *proxy) clearIntercept() { w.intercept.Store(nil) }

// isList reports whether a request lists objects, for S3, Azure or Google.
func isList(r *http.Request) bool {
	q := r.URL.Query()
	return r.Method == http.MethodGet && (q.Get("list-type") == "2" || q.Get("comp") == "list" || r.URL.Path == "/storage/v1/b/bucket/o")
}

// isCreate reports whether a request creates an object only if it does not
// exist.
func isCreate(r *http.Request) bool {
	return r.Header.Get("If-None-Match") == "*" || r.URL.Query().Get("ifGenerationMatch") == "0"
}

// googleTransport sends requests to Google through a proxy, and all others
// directly. The client's own option for emulators would not use the key of the
// account.
type googleTransport struct {
	proxy *url.URL
	host  string
	http.RoundTripper
}

func (g *googleTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != g.host {
		return g.RoundTripper.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Host, r.URL.Scheme, r.URL.Host = g.host, g.proxy.Scheme, g.proxy.Host
	return g.RoundTripper.RoundTrip(r)
}
