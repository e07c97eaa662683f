package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/internal/pipetest"
)

// revokedWithin is how soon a request ends whose credential was revoked, in a bubble.
const revokedWithin = time.Second

// longTimeouts gives a server longer times than a test takes: none of them is what ends a
// request, or what keeps its client from the last message.
func longTimeouts(o *api.Options) {
	o.WriteTimeout, o.UploadTimeout, o.Heartbeat, o.LastWriteTimeout = time.Hour, time.Hour, time.Hour, time.Hour
}

// revocable starts a server whose requests can be revoked.
func revocable(t *testing.T, b *apitest.Backend, change ...func(*api.Options)) (a *testAuth, server *pipetest.Server) {
	t.Helper()
	a = newTestAuth()
	b.PutFile("/big", strings.Repeat("x", 1<<20))
	return a, startServer(t, b, append([]func(*api.Options){longTimeouts, func(o *api.Options) { o.Auth = a }}, change...)...)
}

// endsSoon requires, in a bubble, that reading ends within a moment, and returns what was read.
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
	synctest.Test(t, func(t *testing.T) {
		for name, accept := range map[string]string{"lines": "Accept: application/x-ndjson", "server-sent": sse} {
			a, server := revocable(t, newTestBackend())
			lines := openStream(t, server, "?after=1", accept, "X-API-Key: tenant")
			other := openStream(t, server, "?after=1", "X-API-Key: viewer", accept)
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
			require.Equal(t, 200, request(t, server, "GET /v1/events", "", "X-API-Key: viewer").status, "others continue", name)
		}
	})
}

// A client that does not read is cut off as well.
func TestRevokedClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, server := revocable(t, newTestBackend(), func(o *api.Options) { o.LastWriteTimeout = time.Second })
		conn := server.Dial()
		fmt.Fprintf(conn, "GET %s/big HTTP/1.1\r\nHost: localhost\r\nX-API-Key: tenant\r\n\r\n", filesURL)
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		a.revoke("tenant")
		<-time.After(revokedWithin)
		synctest.Wait()
		require.Zero(t, a.followed("tenant"))
		n, err := io.Copy(io.Discard, resp.Body)
		require.Error(t, err)
		require.Less(t, n, int64(1<<20))
	})
}

// An upload whose client sends nothing more is refused.
func TestRevokedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, server := revocable(t, newTestBackend())
		conn := server.Dial()
		fmt.Fprintf(conn, "PUT %s/new HTTP/1.1\r\nHost: localhost\r\nX-API-Key: tenant\r\nContent-Length: 1000000\r\n\r\nbegin", filesURL)
		synctest.Wait()
		require.Equal(t, 1, a.followed("tenant"))
		a.revoke("tenant")
		text := endsSoon(t, readAll(conn))
		require.Contains(t, text, "401 Unauthorized")
		require.Contains(t, text, "the credential was revoked")
	})
}

// Connections to ports are cut off, and so are those with another protocol.
func TestRevokedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		a, server := revocable(t, b)
		port := program(t, b, echoUpgraded)
		for _, c := range []struct{ request, protocol string }{
			{"GET " + portURL(port) + "/socket", "websocket"}, {"POST " + portURL(port), "tcp"},
		} {
			_, r, resp := upgrade(t, server, c.request, "X-API-Key: tenant", "Connection: Upgrade", "Upgrade: "+c.protocol)
			require.Equal(t, 101, resp.StatusCode, c.protocol)
			a.revoke("tenant")
			require.NotContains(t, endsSoon(t, readAll(r)), "timeout", c.protocol)
			synctest.Wait()
			require.Zero(t, a.followed("tenant"), c.protocol)
		}
	})
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
	s.server = pipetest.NewServer(t, api.New(o))
	path := "/v1/claims/" + s.claim.ID + "/exec/" + id

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+path+"/output", nil)
	require.NoError(t, err)
	r.Header.Set("X-API-Key", "operator")
	resp, err := s.server.Client().Do(r)
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
	server := startServer(t, b, func(o *api.Options) { o.Auth = a })
	for _, c := range []struct {
		key             string
		output, address bool
	}{{"tenant", true, false}, {"author", true, false}, {"viewer", false, true}, {"operator", true, true}} {
		for _, route := range []string{"GET /v1/hook-runs?output=true", "GET /v1/hook-runs/run-1", "GET /v1/events?tenant=alice"} {
			text := request(t, server, route, "", "X-API-Key: "+c.key).text
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
	require.Contains(t, request(t, server, "GET /v1/events", "", "X-API-Key: tenant").text, address)
}
