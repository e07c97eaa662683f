package request

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/internal/testenv"
)

// A name is resolved once for a connection, so the address that was judged is
// the one that is dialed.
func TestNameIsResolvedOnce(t *testing.T) {
	port, connections := everywhere(t)
	names, resolver := serveDNS(t, name("a.example", "127.0.0.2", "then", "127.0.0.1"))
	x := newExecutor(t, Options{Allow: []string{"127.0.0.2"}, resolver: resolver})
	_, port, err := net.SplitHostPort(front(t, port))
	require.NoError(t, err)
	request := hooks.Request{URL: template(t, "http://a.example:"+port+"/200")}

	require.NoError(t, send(t, x, request).Err)
	require.Equal(t, 1, names.count("a.example"))
	x.Close()
	require.ErrorContains(t, send(t, x, request).Err, refused)
	require.Equal(t, 2, names.count("a.example"))
	require.Zero(t, connections.Load())
}

// Proxies of the server's environment could reach every address.
func TestProxyIsIgnored(t *testing.T) {
	port, connections := everywhere(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:"+port)
	}
	r := receive(t, nil)
	x := newExecutor(t, Options{})
	require.Nil(t, x.transport.again.Proxy)
	require.Nil(t, x.listed.once.Proxy)
	require.NoError(t, send(t, x, hooks.Request{URL: template(t, r.URL)}).Err)
	require.Zero(t, connections.Load())
}

// Connections are used again: 1,000 requests, also concurrent ones and those that
// fail, leave no descriptors behind.
func TestConnectionsAreReused(t *testing.T) {
	var opened atomic.Int64
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(r.keep(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/fail") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	x := newExecutor(t, Options{})
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(list)
	}
	before := descriptors()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 250 {
				x.Execute(t.Context(), attemptOf(hooks.Request{URL: template(t, r.URL+[]string{"/", "/fail"}[i%2]), Body: bodyOf(t, "x")}))
			}
		})
	}
	wg.Wait()
	require.Len(t, r.all(), 1000)
	require.LessOrEqual(t, opened.Load(), int64(8))
	require.LessOrEqual(t, descriptors(), before+2*8+4)
}

// A request that a receiver may have read is not sent again within an attempt,
// although it has an idempotency key: the policy of the hook decides that.
func TestNotSentTwice(t *testing.T) {
	for _, method := range []string{"", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, body := range []*variables.Template{nil, bodyOf(t, "x")} {
			var n atomic.Int64
			r := receive(t, func(http.ResponseWriter, *http.Request) {
				if n.Add(1) > 1 {
					panic(http.ErrAbortHandler) // closes the connection, which may be a reused one
				}
			})
			x := newExecutor(t, Options{})
			request := hooks.Request{URL: template(t, r.URL), Method: method, Body: body}
			require.NoError(t, send(t, x, request).Err)
			require.Equal(t, hooks.Failed, send(t, x, request).State, "%s %v", method, body)
			require.Len(t, r.all(), 2, "%s %v", method, body)
		}
	}
}

// A receiver that reads slowly or a long timeout of a dial does not outlive the
// attempt.
func TestTimeoutBoundsDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }}
		x := newExecutor(t, Options{resolver: resolver})
		a := attemptOf(hooks.Request{URL: template(t, "http://a.example")})
		a.Timeout = time.Second
		started := time.Now()
		res := x.Execute(t.Context(), a)
		require.Equal(t, hooks.TimedOut, res.State)
		require.True(t, ending(x, res).MayRetry)
		require.Equal(t, a.Timeout, time.Since(started))
		<-time.After(time.Minute) // the dial itself ends later
	})
}

// A secret is sent in plain text only to an address that the server lists, also
// if there is a connection to it.
func TestSecretsInPlainText(t *testing.T) {
	own := ownAddress(t, func(a netip.Addr) bool { return a.Is4() && a.IsPrivate() })
	if own == "" {
		testenv.Skip(t, "docker", "this machine has no address in a private network, such as that of Docker's bridge")
	}
	l, err := net.Listen("tcp", own+":0")
	require.NoError(t, err)
	r := &receiver{}
	go func() { _ = http.Serve(l, r.keep(nil)) }()
	t.Cleanup(func() { l.Close() })
	t.Setenv("HOSTLER_SECRET_A", "canary-0123456789")
	secrets := map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
	url := "http://" + l.Addr().String()

	x := newExecutor(t, Options{Allow: []string{"192.0.2.1"}})
	x.addresses.interfaces = func() ([]net.Addr, error) { return nil, nil }  // as if it were another machine's
	require.NoError(t, send(t, x, hooks.Request{URL: template(t, url)}).Err) // leaves a connection
	for name, request := range map[string]hooks.Request{
		"bearer":  {Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}},
		"api key": {Auth: hooks.Auth{Type: hooks.AuthAPIKey, Secret: "A", Header: "X-Key"}},
		"header":  {Headers: map[string]variables.Template{"X": template(t, "${A}")}},
		"body":    {Body: bodyOf(t, "${A}")},
		"sign":    {Webhook: true, Sign: "A"},
		"query":   {URL: template(t, url+"/?a=${A}")},
	} {
		if request.URL.String() == "" {
			request.URL = template(t, url)
		}
		a := attemptOf(request)
		a.Secrets = secrets
		res := x.Execute(t.Context(), a)
		require.Equal(t, hooks.StartFailed, res.State, name)
		require.ErrorContains(t, res.Err, "https only", name)
		require.Len(t, r.all(), 1, name)
	}
	token, err := http.NewRequest(http.MethodPost, url, http.NoBody)
	require.NoError(t, err)
	_, err = x.tokens.transport.RoundTrip(token) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, ErrRefused, "the request for a token, which is signed with a key")
	require.Len(t, r.all(), 1)
	y := newExecutor(t, Options{Allow: []string{own}})
	a := attemptOf(hooks.Request{URL: template(t, url), Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}})
	a.Secrets = secrets
	require.NoError(t, y.Execute(t.Context(), a).Err)
	require.Equal(t, "Bearer canary-0123456789", r.all()[1].header.Get("Authorization"))
}
