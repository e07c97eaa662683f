package snapshot_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// proxy is what stands before a provider's server: requests and answers go
// through it, unless the test wants something else.
type proxy struct {
	*httptest.Server
	to http.Handler
	// intercept, if set, answers in the server's place when it says so.
	intercept atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	lists     atomic.Int32 // how often a list was asked for
	creates   atomic.Int32 // and a creation
}

func newProxy(t testing.TB, to http.Handler) *proxy {
	w := &proxy{to: to}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// forward is a server elsewhere.
func forward(t testing.TB, address string) http.Handler {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	p := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
		r.Out.Host = r.In.Host // it is part of what is signed
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

// setIntercept has f asked before each request from now on.
func (w *proxy) setIntercept(f func(http.ResponseWriter, *http.Request) bool) { w.intercept.Store(&f) }

// clearIntercept ends what does began.
func (w *proxy) clearIntercept() { w.intercept.Store(nil) }

// isList says whether objects are to be listed: S3's, Azure's or Google's way.
func isList(r *http.Request) bool {
	q := r.URL.Query()
	return r.Method == http.MethodGet && (q.Get("list-type") == "2" || q.Get("comp") == "list" || r.URL.Path == "/storage/v1/b/bucket/o")
}

// isCreate says whether an object is to be made if there is none.
func isCreate(r *http.Request) bool {
	return r.Header.Get("If-None-Match") == "*" || r.URL.Query().Get("ifGenerationMatch") == "0"
}

// googleTransport sends what goes to Google through a way, and all else where it goes.
// The client's own switch for emulators would leave out the key of the account.
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
