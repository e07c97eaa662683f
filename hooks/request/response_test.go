package request

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
)

func quoted(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	require.NoError(t, err)
	return string(b)
}

// peer starts a server that answers each connection with raw bytes, and returns
// its URL. It waits until wait ends before it closes.
func peer(t *testing.T, wait context.Context, answer func(io.Writer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				answer(c)
				<-wait.Done()
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// zeros is a body without an end.
func zeros(w io.Writer) {
	for {
		if _, err := w.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

// What a receiver does at worst ends with the attempt, which then may be
// repeated. Without a need for the body the status is enough.
func TestBadReceivers(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	const ok = "HTTP/1.1 200 OK\r\n"
	write := func(text string) func(io.Writer) { return func(w io.Writer) { _, _ = io.WriteString(w, text) } }
	for name, test := range map[string]struct {
		closes     bool
		answer     func(io.Writer)
		state      hooks.RunState // without a need for the body
		stateWhole hooks.RunState // if the body is needed
	}{
		"never answers":             {false, write(""), hooks.TimedOut, hooks.TimedOut},
		"closes at once":            {true, write(""), hooks.Failed, hooks.Failed},
		"stalls within the headers": {false, write(ok + "X: y\r\n"), hooks.TimedOut, hooks.TimedOut},
		"stalls before the body":    {false, write(ok + "Content-Length: 10\r\n\r\n"), hooks.Succeeded, hooks.TimedOut},
		"stalls within the body":    {false, write(ok + "Content-Length: 10\r\n\r\n12345"), hooks.Succeeded, hooks.TimedOut},
		"closes within the body":    {true, write(ok + "Content-Length: 10\r\n\r\n12345"), hooks.Succeeded, hooks.Failed},
		"closes within a chunk":     {true, write(ok + "Transfer-Encoding: chunked\r\n\r\nff\r\nabc"), hooks.Succeeded, hooks.Failed},
		"body without an end":       {false, func(w io.Writer) { write(ok + "\r\n")(w); zeros(w) }, hooks.Succeeded, hooks.Succeeded},
		"10 GiB":                    {false, func(w io.Writer) { write(ok + "Content-Length: 10737418240\r\n\r\n")(w); zeros(w) }, hooks.Succeeded, hooks.Succeeded},
		"header without an end":     {false, func(w io.Writer) { write(ok + "X: ")(w); zeros(w) }, hooks.Failed, hooks.Failed},
		"headers without an end":    {true, write(ok + strings.Repeat("X: y\r\n", 100000)), hooks.Failed, hooks.Failed},
		"not HTTP":                  {true, write("SSH-2.0-OpenSSH_9.9\r\n\r\n"), hooks.Failed, hooks.Failed},
		"interim answers only": {false, func(w io.Writer) {
			for range 100000 {
				write("HTTP/1.1 103 Early Hints\r\n\r\n")(w)
			}
		}, hooks.Failed, hooks.Failed},
		"two lengths":                {true, write(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n12"), hooks.Failed, hooks.Failed},
		"gzip that is not unpacked":  {true, write(ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno"), hooks.Succeeded, hooks.Succeeded},
		"redirect with a bad target": {true, write("HTTP/1.1 302 Found\r\nLocation: http://[canary\r\nContent-Length: 0\r\n\r\n"), hooks.Failed, hooks.Failed},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", keep), func(t *testing.T) {
				t.Parallel()
				x := newExecutor(t, Options{})
				a := attemptOf(hooks.Request{URL: template(t, peer(t, map[bool]context.Context{false: t.Context(), true: ended}[test.closes], test.answer)), KeepResponse: keep})
				a.Timeout = 3 * time.Second
				res := x.Execute(t.Context(), a)
				require.Equal(t, map[bool]hooks.RunState{false: test.state, true: test.stateWhole}[keep], res.State, "%v", res.Err)
				require.LessOrEqual(t, len(res.Detail.Response), maxKept)
				if res.State != hooks.Succeeded {
					require.Error(t, res.Err)
					require.Equal(t, res.Detail.Status == 0, ending(x, res).MayRetry)
					require.NotContains(t, res.Err.Error(), "canary")
				}
			})
		}
	}
}

// The flow that waits for a request can end it.
func TestCancel(t *testing.T) {
	x := newExecutor(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	url := peer(t, t.Context(), func(io.Writer) { cancel(errors.New("stopping")) })
	res := x.Execute(ctx, attemptOf(hooks.Request{URL: template(t, url)}))
	require.Equal(t, hooks.Cancelled, res.State)
	require.False(t, ending(x, res).MayRetry)
}

// A server is verified, and HTTP/2 is not spoken.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	get := func(o Options, url string) runner.Result {
		return send(t, newExecutor(t, o), hooks.Request{URL: template(t, url), KeepResponse: true})
	}
	res := get(Options{RootCAs: roots}, server.URL)
	require.NoError(t, res.Err)
	require.Equal(t, "HTTP/1.1", res.Detail.Response)

	res = get(Options{}, server.URL)
	require.Equal(t, hooks.Failed, res.State)
	require.ErrorContains(t, res.Err, "certificate")

	other := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // not in the certificate
	res = get(Options{RootCAs: roots, Allow: []string{"localhost"}}, other)
	require.ErrorContains(t, res.Err, "certificate")
}

// A certificate that has expired is not accepted.
func TestExpiredCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(r.keep(nil))
	r.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	r.StartTLS()
	t.Cleanup(r.Close)
	res := send(t, newExecutor(t, Options{RootCAs: roots}), hooks.Request{URL: template(t, r.URL)})
	require.Equal(t, hooks.Failed, res.State)
	require.ErrorContains(t, res.Err, "expired")
	require.Empty(t, r.all())
}

// Values of a response are captured whole or not at all, and what is missing is
// a warning: the receiver has done its work.
func TestCapture(t *testing.T) {
	long := strings.Repeat("x", maxCaptured+1)
	for name, test := range map[string]struct {
		body     string
		want     map[string]string
		warnings []string
	}{
		"there":         {`{"id": "a\"b", "n": [1, 2]}`, map[string]string{"ID": `a"b`, "N": "2"}, nil},
		"one missing":   {`{"id": "a"}`, map[string]string{"ID": "a"}, []string{"N was not captured: the response has no $.n[1]"}},
		"not JSON":      {`<html>`, nil, []string{"ID was not captured", "N was not captured"}},
		"empty":         {``, nil, []string{"ID was not captured", "N was not captured"}},
		"too long":      {`{"id": "` + long + `", "n": [1, 2]}`, map[string]string{"N": "2"}, []string{"ID was not captured: it is larger than 4096 bytes"}},
		"response long": {`{"id": "a", "n": [1, 2]}` + strings.Repeat(" ", maxResponseBytes), nil, []string{"larger than 65536 bytes", "larger than 65536 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := receive(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, test.body) })
			res := send(t, newExecutor(t, Options{}), hooks.Request{
				URL: template(t, r.URL), Capture: map[string]variables.Path{"ID": pathOf(t, "$.id"), "N": pathOf(t, "$.n[1]")},
			})
			require.NoError(t, res.Err)
			require.Equal(t, hooks.Succeeded, res.State)
			require.Equal(t, test.want, res.Captured)
			require.Len(t, res.Detail.Captured, len(test.want))
			require.Len(t, res.Warnings, len(test.warnings))
			for i, w := range test.warnings {
				require.Contains(t, res.Warnings[i], w)
			}
			require.Empty(t, res.Detail.Response, "it is not kept without keep_response")
		})
	}
}

// The start of a response is kept if the action asks for it, in a form that
// databases store.
func TestKeepResponse(t *testing.T) {
	for body, want := range map[string]string{
		"plain": "plain", "a\x00b\xffc": "a\ufffdb\ufffdc",
		strings.Repeat("x", maxKept+1):         strings.Repeat("x", maxKept),
		strings.Repeat("x", maxKept-1) + "äöü": strings.Repeat("x", maxKept-1),
		strings.Repeat("é", maxResponseBytes):  strings.Repeat("é", maxKept/2),
	} {
		r := receive(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		x := newExecutor(t, Options{})
		require.Equal(t, want, send(t, x, hooks.Request{URL: template(t, r.URL), KeepResponse: true}).Detail.Response)
		require.Empty(t, send(t, x, hooks.Request{URL: template(t, r.URL)}).Detail.Response)
	}
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "why")
	})
	require.Equal(t, "why", send(t, newExecutor(t, Options{}), hooks.Request{URL: template(t, r.URL), KeepResponse: true}).Detail.Response)
}

// The start of a response is captured under the name that a hook has for it,
// without secrets, also if it is not JSON.
func TestNamedResponse(t *testing.T) {
	t.Setenv("HOSTLER_SECRET_A", "canary-0123456789")
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprint(w, req.Header.Get("Authorization"), " ", strings.Repeat("x", maxResponseBytes))
	})
	a := attemptOf(hooks.Request{URL: template(t, r.URL), ResponseAs: "HOOK_ask_RESPONSE", Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}})
	a.Secrets = map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}}
	res := newExecutor(t, Options{}).Execute(t.Context(), a)
	require.NoError(t, res.Err)
	require.Equal(t, []string{"HOOK_ask_RESPONSE"}, res.Detail.Captured)
	require.Equal(t, ("Bearer ••• " + strings.Repeat("x", maxKept))[:maxKept], res.Captured["HOOK_ask_RESPONSE"])
	require.Empty(t, res.Detail.Response)
}
