package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
)

// withDomain gives the API keys and a domain of ports.
func withDomain(t *testing.T, domain string) func(*api.Options) {
	t.Helper()
	d, err := api.ParsePortDomain(domain, []byte("secret"))
	require.NoError(t, err)
	return func(o *api.Options) { o.PortDomain = d }
}

// A link opens one port of one claim, once its token is in a cookie, until it
// expires or the claim ends.
func TestPortLinks(t *testing.T) {
	seen := make(chan *http.Request, 1)
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Add("Set-Cookie", "own=1; Domain=ports.example.com; Path=/")
		w.Header().Add("Set-Cookie", "__Host-hostler_link=x; Path=/")
		w.Header().Set("Clear-Site-Data", `"*"`)
		w.Header().Set("Cache-Control", "max-age=5")
	})
	keys := testKeys()
	server := startServer(t, b, withDomain(t, "ports.example.com"), func(o *api.Options) { o.Auth = keys })
	a := request(t, server, "POST "+portURL(port)+"/links", `{"expires_in": "2h"}`, "application/json", "X-API-Key: "+key1)
	require.Equal(t, 200, a.status, a.text)
	u, err := url.Parse(a.body["url"].(string))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("https://%d-claim-alice.ports.example.com/", port), u.Scheme+"://"+u.Host+u.Path)
	host, token := "Host: "+u.Host, u.Query().Get("hostler_link")

	resp, body := raw(t, server, "GET", "/x//y?a=1&hostler_link="+token+"&b=2", nil, host)
	require.Equal(t, 303, resp.StatusCode, body)
	require.Equal(t, "https://"+u.Host+"/x//y?a=1&b=2", resp.Header.Get("Location"))
	require.Equal(t, "no-referrer", resp.Header.Get("Referrer-Policy"))
	cookie := resp.Cookies()[0]
	require.Equal(t, "__Host-hostler_link", cookie.Name)
	require.True(t, cookie.HttpOnly && cookie.Secure && cookie.SameSite == http.SameSiteLaxMode && cookie.Path == "/" && cookie.Domain == "")

	resp, _ = raw(t, server, "GET", "/v1/pools?x=1", nil, host, "Cookie: own=1; __Host-hostler_link="+token+"; hostler_link=x", "Authorization: Basic own")
	require.Equal(t, 200, resp.StatusCode)
	got := <-seen
	require.Equal(t, []string{"own=1"}, got.Header["Cookie"])
	require.Equal(t, "Basic own", got.Header.Get("Authorization"), "it is the program's")
	require.Equal(t, u.Host+" /v1/pools?x=1", got.Host+" "+got.RequestURI, "the whole host is the program's")
	require.Equal(t, []string{"own=1; Path=/"}, resp.Header["Set-Cookie"])
	require.Equal(t, []string{"max-age=5"}, resp.Header["Cache-Control"])
	require.Empty(t, resp.Header.Get("Clear-Site-Data"))
	require.Empty(t, resp.Header.Get("Content-Security-Policy"))

	resp, _ = raw(t, server, "GET", "/", nil, host, "Authorization: Bearer "+key1)
	require.Equal(t, 200, resp.StatusCode)
	require.Empty(t, (<-seen).Header.Get("Authorization"))

	for name, c := range map[string]struct {
		status  int
		path    string
		headers []string
	}{
		"no credential":      {401, "/", []string{host}},
		"wrong key":          {401, "/", []string{host, "X-API-Key: wrong"}},
		"another port":       {403, "/?hostler_link=" + token, []string{"Host: 81-claim-alice.ports.example.com"}},
		"another claim":      {403, "/?hostler_link=" + token, []string{fmt.Sprintf("Host: %d-claim-bob.ports.example.com", port)}},
		"forged":             {403, "/?hostler_link=9" + token, []string{host}},
		"cookie of another":  {401, "/", []string{"Host: 81-claim-alice.ports.example.com", "Cookie: __Host-hostler_link=" + token}},
		"cookie without TLS": {401, "/", []string{host, "Cookie: hostler_link=" + token}},
		"no port":            {404, "/v1/pools", []string{"Host: x.ports.example.com", "X-API-Key: " + key1}},
		"a tenant's page":    {403, "/", []string{host, "Cookie: __Host-hostler_link=" + token, "Connection: Upgrade", "Upgrade: websocket", "Origin: https://80-claim-eve.ports.example.com"}},
	} {
		resp, body := raw(t, server, "GET", c.path, nil, c.headers...)
		require.Equal(t, c.status, resp.StatusCode, "%s: %s", name, body)
	}
	resp, body = raw(t, server, "POST", "/", nil, host, "Cookie: __Host-hostler_link="+token, "Sec-Fetch-Site: same-site", "Origin: https://80-claim-eve.ports.example.com")
	require.Equal(t, 403, resp.StatusCode, body)

	b.Claims[0].State = claim.Releasing
	resp, body = raw(t, server, "GET", "/", nil, host, "Cookie: __Host-hostler_link="+token)
	require.Equal(t, 409, resp.StatusCode, body)
	require.Empty(t, seen)
}

// A link is made for a time, of an active claim, by a server with a domain.
func TestPortLinkErrors(t *testing.T) {
	server := startServer(t, newTestBackend(), withDomain(t, "http://localhost:8700"))
	for body, status := range map[string]int{
		`{}`: 200, `{"expires_in": "24h"}`: 200, `{"expires_in": "25h"}`: 422, `{"expires_in": "-1s"}`: 422, `{"expires_in": "1ms"}`: 422, `{"port": 1}`: 422, `x`: 400,
	} {
		require.Equal(t, status, request(t, server, "POST "+portURL(80)+"/links", body, "application/json").status, body)
	}
	require.Equal(t, 409, request(t, server, "POST /v1/claims/claim-bob/ports/80/links", "{}", "application/json").status)
	require.Equal(t, 422, request(t, server, "POST "+portURL(65536)+"/links", "{}", "application/json").status)
	a := request(t, startServer(t, newTestBackend()), "POST "+portURL(80)+"/links", "{}", "application/json")
	require.Equal(t, 409, a.status)
	require.Equal(t, "no_port_domain", a.body["code"])
	for _, bad := range []string{"ftp://x", "1.2.3.4", "*.example.com", "x/y", "https://", "a b"} {
		_, err := api.ParsePortDomain(bad, nil)
		require.Error(t, err, bad)
	}
}
