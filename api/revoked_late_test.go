package api_test

import (
	"context"
	"encoding/json"
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
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/wait"
)

// A request whose credential is revoked while its body is sent does nothing: a holder
// may have begun many, to end them later.
func TestRevokedWhileItsBodyIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestAuth(), newTestBackend()
		server := startServer(t, b, longTimeouts, func(o *api.Options) { o.Auth = a })
		conn := server.Dial()
		body := `{"workload":"web","tenant":"alice"}`
		fmt.Fprintf(conn, "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nX-API-Key: tenant\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:9])
		synctest.Wait()
		require.Equal(t, 1, a.followed("tenant"))
		a.revoke("tenant")
		fmt.Fprint(conn, body[9:])
		text := endsSoon(t, readAll(conn))
		require.Contains(t, text, "401 Unauthorized")
		for _, r := range b.Requests {
			require.NotContains(t, fmt.Sprintf("%T", r), "claim.Request")
		}
	})
}

// A client that reads slowly does not get what is left of a response.
func TestRevokedClientThatReadsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestAuth(), newTestBackend()
		data, err := json.Marshal(strings.Repeat("x", 64<<10))
		require.NoError(t, err)
		const events = 250 // of one write
		for range events {
			b.Append(activity.Event{Type: "agent.x", Tenant: "alice", Workload: "web", Claim: "claim-alice", Data: data})
		}
		server := startServer(t, b, func(o *api.Options) { o.Auth, o.WriteTimeout = a, time.Minute })
		conn := server.Dial()
		fmt.Fprint(conn, "GET /v1/events/stream?after=3 HTTP/1.1\r\nHost: localhost\r\nX-API-Key: tenant\r\n\r\n")
		part := make([]byte, 64<<10)
		_, err = io.ReadFull(conn, part[:1])
		require.NoError(t, err)
		a.revoke("tenant")
		read, tick := 0, time.NewTicker(100*time.Millisecond)
		defer tick.Stop()
		for err == nil {
			var n int
			n, err = io.ReadFull(conn, part)
			read += n
			if a.followed("tenant") > 0 { // else what is left is in the buffers of the connection
				<-tick.C
			}
		}
		require.Less(t, read, events*len(data)/2)
	})
}

// A client of a WebSocket that does not answer the last message has no effect on its
// command any more.
func TestRevokedSocketThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveCommands(t, commandWorkload, nil)
		id := s.start(`{"command":["copy"],"detach":true,"input":true}`)
		a, b := newTestAuth(), newTestBackend()
		o := b.Options()
		o.Access, o.Auth = s.Access(nil), a
		longTimeouts(&o)
		s.server = pipetest.NewServer(t, api.New(o))
		conn, _, err := s.dial("/"+id+"/attach", http.Header{"X-Api-Key": {"operator"}})
		require.NoError(t, err)
		var got socketLog
		got.receive(t, conn, func() bool { return got.event.Start != nil })
		a.revoke("operator")
		got.receive(t, conn, func() bool { return got.event.Type == "error" })
		sendText(t, conn, `{"type":"signal","signal":"SIGKILL"}`)
		_, _, err = conn.Read(t.Context())
		require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err))
		synctest.Wait()
		require.Zero(t, a.followed("operator"))
		// Another command begins and ends in the meantime.
		require.Equal(t, 200, s.exec("POST", "", `{"command":["copy"],"stdin":"x"}`, "X-API-Key: operator").status)
		require.Nil(t, s.exec("GET", "/"+id, "", "X-API-Key: operator").body["result"], "it was ended by a revoked credential")
		require.Equal(t, 200, s.exec("DELETE", "/"+id, "", "X-API-Key: operator").status)
	})
}

// slow has waits and claims that end with their request, and have a result then.
type slow struct {
	api.Waits
	api.Claimer
	api.State
}

func (s slow) Follow(ctx context.Context, id string) (wait.Wait, error) {
	<-ctx.Done()
	return s.Get(context.WithoutCancel(ctx), id)
}

func (s slow) Claim(ctx context.Context, r claim.Request) (claim.Claim, bool, error) {
	<-ctx.Done()
	return s.Claimer.Claim(context.WithoutCancel(ctx), r)
}

func (s slow) Sync(ctx context.Context, _ string) (claim.Claim, snapshot.Transfer, error) {
	<-ctx.Done()
	return claim.Claim{}, snapshot.Transfer{}, &claim.SyncError{Direction: "upload", Err: context.Cause(ctx)}
}

// A request that waits has no result once its credential was revoked.
func TestRevokedRequestThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestAuth(), newTestBackend()
		b.Waits = append(b.Waits, wait.Wait{ID: "wait-open", Claim: "claim-alice", Workload: "web", Tenant: "alice", State: wait.Waiting})
		server := startServer(t, b, longTimeouts, func(o *api.Options) {
			s := slow{o.Waits, o.Claimer, o.State}
			o.Auth, o.Waits, o.Claimer, o.State = a, s, s, s
		})
		put := request(t, server, "PUT /v1/workloads/web", file, "application/yaml", "X-API-Key: operator")
		require.Equal(t, 201, put.status, put.text)
		for route, body := range map[string]string{"GET /v1/waits/wait-open?wait=5m": "", "POST /v1/claims": `{"workload":"web","wait":"5m"}`, "POST /v1/claims/claim-alice/sync": ""} {
			answered := make(chan response, 1)
			go func() { answered <- request(t, server, route, body, "X-API-Key: tenant") }()
			synctest.Wait()
			require.Equal(t, 1, a.followed("tenant"))
			a.revoke("tenant")
			got := <-answered
			require.Equal(t, 401, got.status, got.text)
			require.NotContains(t, got.text, "claim-alice")
		}
	})
}
