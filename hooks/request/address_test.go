package request

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the table of docs/hook-requests.md")

// everywhere starts a server on all addresses of this machine, and returns its
// port and the number of connections to it.
func everywhere(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	connections := new(atomic.Int64)
	s := &httptest.Server{Listener: l, Config: &http.Server{ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}}}
	s.Start()
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port, connections
}

// front starts a server on an address that the tests permit. It answers with the
// status of the path and refers to the port in every way that HTTP knows.
func front(t *testing.T, port string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://127.0.0.1:"+port)
		w.Header().Set("Refresh", "0; url=http://127.0.0.1:"+port)
		w.Header().Set("Alt-Svc", `h2="127.0.0.1:`+port+`", h3="127.0.0.1:`+port+`"`)
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
	})}}
	s.Start()
	t.Cleanup(s.Close)
	return l.Addr().String()
}

// ownAddress returns a matching address of an interface, or "".
func ownAddress(t *testing.T, match func(netip.Addr) bool) string {
	t.Helper()
	interfaces, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, i := range interfaces {
		p, err := netip.ParsePrefix(i.String())
		if a := p.Addr(); err == nil && a.IsGlobalUnicast() && match(a) {
			return a.String()
		}
	}
	return ""
}

// No way leads to this machine, to a metadata service or to the server itself.
func TestWays(t *testing.T) {
	port, connections := everywhere(t)
	own4, own6 := ownAddress(t, netip.Addr.Is4), ownAddress(t, netip.Addr.Is6)
	fill := strings.NewReplacer("PORT", port, "FRONT", front(t, port), "OWN4", own4, "OWN6", own6)
	t.Setenv("HOSTLER_SECRET_URL", "http://127.0.0.1:"+port+"/secret")
	for _, w := range ways {
		t.Run(w.what, func(t *testing.T) {
			if strings.Contains(w.url, "OWN4") && own4 == "" {
				testenv.Skip(t, "docker", "this machine has no IPv4 address, such as that of Docker's bridge")
			}
			if strings.Contains(w.url, "OWN6") && own6 == "" {
				testenv.Skip(t, "ipv6", "this machine has no IPv6 address")
			}
			names := map[string][]string{}
			for n, addrs := range w.names {
				for _, a := range addrs {
					names[n] = append(names[n], fill.Replace(a))
				}
			}
			_, resolver := serveDNS(t, names)
			x := newExecutor(t, Options{
				Allow: []string{"127.0.0.2"}, Deny: []string{"denied.example", "10.66.0.0/16"}, Own: []string{"hostler.example"},
				resolver: resolver,
			})
			before := connections.Load()
			parsed := template(t, fill.Replace(w.url))
			for attempt := 1; attempt <= 3; attempt++ {
				a := attemptOf(hooks.Request{URL: parsed, Body: bodyOf(t, "x")})
				a.Attempt, a.Timeout = attempt, time.Minute
				a.Lookup = values(map[string]string{"UNTRUSTED": "127.0.0.1", "UNTRUSTED_USER": "@127.0.0.1"})
				a.Secrets = map[string]hooks.Secret{"SECRET_URL": {Env: "HOSTLER_SECRET_URL"}}
				res := x.Execute(t.Context(), a)
				require.NotEqual(t, hooks.Succeeded, res.State)
				if attempt == 1 {
					require.ErrorContains(t, res.Err, w.result)
					require.Equal(t, w.result == refused || w.result == invalid, res.State == hooks.StartFailed, "%s", res.State)
				}
				require.False(t, ending(x, res).MayRetry && w.result == refused && attempt == 1)
				require.Equal(t, before, connections.Load(), "it was reached")
				if strings.Contains(w.what, "changes after a refusal") {
					break // the next address is permitted, and is not here
				}
			}
		})
	}
}

// docs/hook-requests.md has the table of ways.
func TestWaysAreDocumented(t *testing.T) {
	const file, begin, end = "../../docs/hook-requests.md", "<!-- ways -->\n", "<!-- end of ways -->\n"
	var table strings.Builder
	table.WriteString("| way | URL | result |\n|---|---|---|\n")
	for _, w := range ways {
		fmt.Fprintf(&table, "| %s | `%s` | %s |\n", w.what, w.url, w.result)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := head + begin + table.String() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(data), "run go test ./hooks/request -run TestWaysAreDocumented -update")
}

// Global addresses and private networks are permitted; allow opens more; deny
// wins.
func TestAddressRules(t *testing.T) {
	for _, test := range []struct {
		allow, deny, host, addr string
		ok                      bool
	}{
		{"", "", "a", "8.8.8.8", true}, {"", "", "a", "10.1.2.3", true}, {"", "", "a", "172.31.255.255", true},
		{"", "", "a", "192.168.1.1", true}, {"", "", "a", "fd12:3456::1", true}, {"", "", "a", "2606:4700::1111", true},
		{"", "", "a", "::ffff:8.8.8.8", true},
		{"", "", "a", "100.64.0.1", false}, {"", "", "a", "198.18.0.1", false}, {"", "", "a", "2001:db8::1", false},
		{"", "", "a", "64:ff9b::808:808", false}, {"", "", "a", "2002:808:808::", false}, {"", "", "a", "fec0::1", false},

		{"127.0.0.1", "", "a", "127.0.0.1", true}, {"127.0.0.1", "", "a", "127.0.0.2", false},
		{"127.0.0.0/8", "", "a", "::ffff:127.0.0.2", true}, {"::1", "", "a", "::1", true}, {"[::1]", "", "a", "::1", true},
		{"localhost", "", "localhost", "127.0.0.1", true}, {"localhost", "", "LocalHost.", "127.0.0.1", true},
		{"localhost", "", "other", "127.0.0.1", false}, {"100.64.0.0/10", "", "a", "100.64.0.1", true},
		{"*.internal", "", "a.internal", "127.0.0.1", true}, {"*.internal", "", "internal", "127.0.0.1", false},
		{"*.internal", "", "ainternal", "127.0.0.1", false}, {"*.internal", "", ".internal", "127.0.0.1", false},

		{"", "8.8.8.8", "a", "8.8.8.8", false}, {"", "8.8.8.8", "a", "::ffff:8.8.8.8", false}, {"", "bad.example", "bad.example.", "8.8.8.8", false},
		{"", "*.bad.example", "x.bad.example", "8.8.8.8", false},
		{"127.0.0.1", "127.0.0.0/8", "a", "127.0.0.1", false}, {"localhost", "127.0.0.1", "localhost", "127.0.0.1", false},
		{"127.0.0.1", "localhost", "localhost", "127.0.0.1", false}, {"0.0.0.0/0", "10.0.0.0/8", "a", "10.1.1.1", false},

		{"64:ff9b::/96", "", "a", "64:ff9b::808:808", true}, {"64:ff9b::/96", "", "a", "64:ff9b::a00:1", true},
		{"64:ff9b::/96", "", "a", "64:ff9b::7f00:1", false}, {"64:ff9b::/96", "", "a", "64:ff9b::a9fe:a9fe", false},
		{"64:ff9b::/96 127.0.0.1", "", "a", "64:ff9b::7f00:1", true}, {"64:ff9b::/96", "8.8.8.8", "a", "64:ff9b::808:808", false},
		{"2002::/16", "", "a", "2002:7f00:1::", false}, {"2002::/16", "", "a", "2002:808:808::", true},
	} {
		x, err := New(Options{Allow: strings.Fields(test.allow), Deny: strings.Fields(test.deny)})
		require.NoError(t, err)
		err = x.addresses.check(t.Context(), test.host, netip.MustParseAddr(test.addr), false)
		require.Equal(t, test.ok, err == nil, "%v: %v", test, err)
		if err != nil {
			require.ErrorIs(t, err, ErrRefused)
		}
	}
}

// Nothing is permitted while it is unknown which addresses are the server's.
func TestUnknownOwnAddresses(t *testing.T) {
	x := newExecutor(t, Options{})
	x.addresses.interfaces = func() ([]net.Addr, error) { return nil, errors.New("no interfaces") }
	require.EqualError(t, x.addresses.check(t.Context(), "a", netip.MustParseAddr("8.8.8.8"), false), "list the server's own addresses: no interfaces")
	res := send(t, x, hooks.Request{URL: template(t, "http://10.255.255.254")})
	require.Equal(t, hooks.Failed, res.State)
	require.True(t, ending(x, res).MayRetry)

	_, resolver := serveDNS(t, nil)
	x = newExecutor(t, Options{Own: []string{"hostler.example"}, resolver: resolver})
	require.NoError(t, x.addresses.check(t.Context(), "a", netip.MustParseAddr("8.8.8.8"), false), "the name does not exist")
	resolver.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no DNS") }
	require.ErrorContains(t, x.addresses.check(t.Context(), "a", netip.MustParseAddr("8.8.8.8"), false), "no DNS")
}

// What is no host and no network is an error when the server starts.
func TestInvalidRules(t *testing.T) {
	for _, text := range []string{"", " ", "a b", "10.0.0.0/33", "a/8", "localhost:8080", "http://a", "*", "*.", "a*", "ä.example", "::ffff:10.0.0.0/104"} {
		for _, o := range []Options{{Allow: []string{text}}, {Deny: []string{text}}, {Own: []string{text}}, {GoogleHosts: []string{text}}} {
			_, err := New(o)
			require.Error(t, err, "%q", text)
		}
	}
}
