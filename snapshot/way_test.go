package snapshot_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// way is what stands before a provider's server: requests and answers go
// through it, unless the test wants something else.
type way struct {
	*httptest.Server
	to http.Handler
	// instead, if set, answers in the server's place when it says so.
	instead atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	lists   atomic.Int32 // how often a list was asked for
	creates atomic.Int32 // and a creation
}

func newWay(t testing.TB, to http.Handler) *way {
	w := &way{to: to}
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

func (w *way) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if isList(r) {
		w.lists.Add(1)
	}
	if isCreate(r) {
		w.creates.Add(1)
	}
	if f := w.instead.Load(); f != nil && (*f)(rw, r) {
		return
	}
	w.to.ServeHTTP(rw, r)
}

// does has f asked before each request from now on.
func (w *way) does(f func(http.ResponseWriter, *http.Request) bool) { w.instead.Store(&f) }

// clear ends what does began.
func (w *way) clear() { w.instead.Store(nil) }

// isList says whether objects are to be listed: S3's, Azure's or Google's way.
func isList(r *http.Request) bool {
	q := r.URL.Query()
	return r.Method == http.MethodGet && (q.Get("list-type") == "2" || q.Get("comp") == "list" || r.URL.Path == "/storage/v1/b/bucket/o")
}

// isCreate says whether an object is to be made if there is none.
func isCreate(r *http.Request) bool {
	return r.Header.Get("If-None-Match") == "*" || r.URL.Query().Get("ifGenerationMatch") == "0"
}

// google sends what goes to Google through a way, and all else where it goes.
// The client's own switch for emulators would leave out the key of the account.
type google struct {
	way  *url.URL
	host string
	http.RoundTripper
}

func (g *google) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != g.host {
		return g.RoundTripper.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Host, r.URL.Scheme, r.URL.Host = g.host, g.way.Scheme, g.way.Host
	return g.RoundTripper.RoundTrip(r)
}
