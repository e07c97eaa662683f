package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
)

// revokedWithin is how soon a request ends whose credential was revoked.
const revokedWithin = 20 * time.Second

// longTimeouts gives a server longer times than a test takes: none of them is what ends a
// request, or what keeps its client from the last message.
func longTimeouts(o *api.Options) {
	o.WriteTimeout, o.UploadTimeout, o.Heartbeat, o.LastWriteTimeout = time.Hour, time.Hour, time.Hour, time.Hour
}

// revocable starts a server whose requests can be revoked.
func revocable(t *testing.T, change ...func(*api.Options)) (a *testAuth, url string) {
	t.Helper()
	a = newTestAuth()
	b := newTestBackend()
	b.PutFile("/big", strings.Repeat("x", 32<<20))
	return a, startServer(t, b, append([]func(*api.Options){longTimeouts, func(o *api.Options) { o.Auth = a }}, change...)...)
}

// endsSoon requires that reading ends within a moment, and returns what was read.
func endsSoon(t *testing.T, read func() (string, error)) string {
	t.Helper()
	begin := time.Now()
	text, err := read()
	require.Less(t, time.Since(begin), revokedWithin)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	return text
}

func readAll(r io.Reader) func() (string, error) {
	return func() (string, error) {
		text, err := io.ReadAll(r)
		return string(text), err
	}
}

// A stream of events ends when its credential does, with a line that reports it.
func TestRevokedStreamEnds(t *testing.T) {
	for name, accept := range map[string]string{"lines": "Accept: application/x-ndjson", "server-sent": sse} {
		t.Run(name, func(t *testing.T) {
			a, url := revocable(t)
			lines := openStream(t, url, "?after=1", accept, "X-API-Key: tenant")
			other := openStream(t, url, "?after=1", "X-API-Key: viewer", accept)
			for !strings.Contains(nextLine(t, lines), `"seq":3`) {
			}
			for !strings.Contains(nextLine(t, other), `"seq":3`) {
			}
			a.revoke("tenant")
			rest := endsSoon(t, func() (string, error) {
				var all string
				for lines.Scan() {
					all += lines.Text() + "\n"
				}
				return all, lines.Err()
			})
			require.Contains(t, rest, `"type":"log.ended"`)
			require.Contains(t, rest, "the credential was revoked")
			require.Equal(t, 200, request(t, url, "GET /v1/events", "", "X-API-Key: viewer").status, "others continue")
		})
	}
}

// A client that does not read is cut off as well.
func TestRevokedClientThatDoesNotRead(t *testing.T) {
	a, base := revocable(t, func(o *api.Options) { o.LastWriteTimeout = time.Second })
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s/big HTTP/1.1\r\nHost: localhost\r\nX-API-Key: tenant\r\n\r\n", filesURL)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	a.revoke("tenant")
	require.Eventually(t, func() bool { return a.followed("tenant") == 0 }, revokedWithin, time.Millisecond)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(revokedWithin)))
	n, err := io.Copy(io.Discard, resp.Body)
	require.Error(t, err)
	require.Less(t, n, int64(32<<20))
}

// An upload whose client sends nothing more is refused.
func TestRevokedUpload(t *testing.T) {
	a, base := revocable(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "PUT %s/new HTTP/1.1\r\nHost: localhost\r\nX-API-Key: tenant\r\nContent-Length: 1000000\r\n\r\nbegin", filesURL)
	require.Eventually(t, func() bool { return a.followed("tenant") == 1 }, revokedWithin, time.Millisecond)
	a.revoke("tenant")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(revokedWithin)))
	text := endsSoon(t, readAll(conn))
	require.Contains(t, text, "401 Unauthorized")
	require.Contains(t, text, "the credential was revoked")
}

// Connections to ports are cut off, and so are those with another protocol.
func TestRevokedPort(t *testing.T) {
	a, base := revocable(t)
	port := program(t, echoUpgraded)
	for _, c := range []struct{ request, protocol string }{
		{"GET " + portURL(port) + "/socket", "websocket"}, {"POST " + portURL(port), "tcp"},
	} {
		conn, r, resp := upgrade(t, base, c.request, "X-API-Key: tenant", "Connection: Upgrade", "Upgrade: "+c.protocol)
		require.Equal(t, 101, resp.StatusCode, c.protocol)
		a.revoke("tenant")
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(revokedWithin)))
		require.NotContains(t, endsSoon(t, readAll(r)), "timeout", c.protocol)
		require.Eventually(t, func() bool { return a.followed("tenant") == 0 }, revokedWithin, time.Millisecond, c.protocol)
	}
}

// The output of a command ends with a problem, and a WebSocket with a last message.
// The command itself runs on.
func TestRevokedOutput(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	id := s.start(`{"command":["copy"],"detach":true,"input":true}`)
	a, b := newTestAuth(), newTestBackend()
	o := b.Options()
	o.Access, o.Auth = s.Access(nil), a
	longTimeouts(&o)
	server := httptest.NewServer(api.New(o))
	t.Cleanup(server.Close)
	s.url = server.URL
	path := "/v1/claims/" + s.claim.ID + "/exec/" + id

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path+"/output", nil)
	require.NoError(t, err)
	r.Header.Set("X-API-Key", "operator")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	require.Contains(t, nextLine(t, lines), `"start"`)
	a.revoke("operator")
	require.Contains(t, nextLine(t, lines), `"code":"unauthorized"`)
	require.False(t, lines.Scan())

	conn, _, err := s.dial("/"+id+"/attach", http.Header{"X-Api-Key": {"operator"}})
	require.NoError(t, err)
	var got socketLog
	got.receive(t, conn, func() bool { return got.event.Start != nil })
	a.revoke("operator")
	got.receive(t, conn, func() bool { return got.event.Type == "error" })
	require.Equal(t, api.Unauthorized, got.event.Error.Code)
	_, _, err = conn.Read(t.Context())
	require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err))
	require.Nil(t, s.exec("GET", "/"+id, "", "X-API-Key: operator").body["result"], "it runs on")
}

// A viewer sees neither output nor what tenants send, and no tenant the addresses of
// others.
func TestRedaction(t *testing.T) {
	a, b := newTestAuth(), newTestBackend()
	const output, address = "secret output", "192.0.2.7"
	b.Attempts[0].Response, b.Attempts[0].Stdout.Head = output, output
	events := []activity.Event{
		{Type: activity.HookFailed, Data: activity.Data(activity.HookEndedData{Hook: "init", Stdout: activity.Excerpt{Excerpt: output}, Stderr: activity.Excerpt{Excerpt: output}})},
		{Type: activity.HookCompleted, Data: []byte(`"` + output + `"`)},
		{Type: activity.WaitRequested, Data: activity.Data(activity.WaitData{Wait: "w", Task: output, Iteration: output, Phase: output})},
		{Type: activity.ClaimReleasing, Actor: "key:operator", Address: address},
	}
	for _, e := range events {
		e.Tenant, e.Workload, e.Claim = "alice", "web", "claim-alice"
		b.Append(e)
	}
	url := startServer(t, b, func(o *api.Options) { o.Auth = a })
	for _, c := range []struct {
		key             string
		output, address bool
	}{{"tenant", true, false}, {"author", true, false}, {"viewer", false, true}, {"operator", true, true}} {
		for _, route := range []string{"GET /v1/hook-runs?output=true", "GET /v1/hook-runs/run-1", "GET /v1/events?tenant=alice"} {
			text := request(t, url, route, "", "X-API-Key: "+c.key).text
			require.Equal(t, c.output, strings.Contains(text, output), "%s %s", c.key, route)
			if strings.Contains(route, "runs") {
				require.Equal(t, c.output, strings.Contains(text, "boom"), "%s %s", c.key, route)
			}
			if strings.Contains(route, "events") {
				require.Equal(t, c.address, strings.Contains(text, address), c.key)
			}
		}
	}
	a.principals["tenant"].Actor = "key:operator" // the actor sees its own
	require.Contains(t, request(t, url, "GET /v1/events", "", "X-API-Key: tenant").text, address)
}
