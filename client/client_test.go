package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/pool"
)

// serveThrough serves b and lets wrap see the requests first.
func serveThrough(t *testing.T, b *apitest.Backend, wrap func(http.Handler) http.Handler) *client.Client {
	t.Helper()
	handler := http.Handler(api.New(b.Options()))
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL+"/", "")
	require.NoError(t, err)
	return c
}

// A test of hooks is requested once: if the response is lost, the hooks have
// perhaps run.
func TestHookTestsAreNotRetried(t *testing.T) {
	c := serveThrough(t, apitest.New(), breakFirst(1))
	_, err := c.TestHooks(t.Context(), "claim-1", client.PostClaim)
	require.ErrorIs(t, err, client.ErrNoResponse)
}

// breakFirst breaks the connection of the first n requests.
func breakFirst(n int32) func(http.Handler) http.Handler {
	var seen atomic.Int32
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if seen.Add(1) <= n {
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	}
}

// Every call reaches its route and reads its answer.
func TestClientCalls(t *testing.T) {
	b := apitest.New()
	b.Containers = []pool.Container{{ID: "box-1", Workload: "other"}, {ID: "box-2", Workload: "other"}}
	b.Output = "hello"
	c, ctx := serveThrough(t, b, nil), t.Context()

	applied, err := c.Apply(ctx, "web", []byte("id: web\nimage: x\n"))
	require.NoError(t, err)
	require.True(t, applied.Created)
	ws, err := c.Workloads(ctx)
	require.NoError(t, err)
	require.Len(t, ws, 1)
	w, err := c.Workload(ctx, "web")
	require.NoError(t, err)
	require.Equal(t, "x", w.Image)
	dry, err := c.DryRun(ctx, "web", client.DryRun{On: "post_claim", Variables: map[string]string{"TENANT_ID": "alice"}})
	require.NoError(t, err)
	require.Equal(t, "https://registry.example/alice", dry.Hooks[0].Request.URL)
	require.Equal(t, []string{"/bin/sh"}, dry.Hooks[1].Command.Args)
	require.Equal(t, "log", dry.Hooks[2].Builtin.Name)
	_, err = c.Pools(ctx)
	require.NoError(t, err)
	three := 3
	p, err := c.Scale(ctx, "web", client.Scale{MinIdle: &three})
	require.NoError(t, err)
	require.Equal(t, 3, p.MinIdle)
	p, err = c.Drain(ctx, "web")
	require.NoError(t, err)
	require.Equal(t, client.FillDraining, p.Fill.State)
	_, err = c.Pool(ctx, "web")
	require.NoError(t, err)
	boxes, err := c.Containers(ctx, client.ContainerFilter{States: []client.ContainerState{"", client.ContainerIdle}})
	require.NoError(t, err)
	require.Empty(t, boxes)
	boxes, err = c.Containers(ctx, client.ContainerFilter{Limit: 1})
	require.NoError(t, err)
	require.Len(t, boxes, 1)
	logs, err := c.ContainerLogs(ctx, "box-1", 3)
	require.NoError(t, err)
	text, err := io.ReadAll(logs)
	require.NoError(t, err)
	require.Equal(t, "llo", string(text))
	box, err := c.DestroyContainer(ctx, "box-1", true)
	require.NoError(t, err)
	require.Equal(t, client.ContainerDestroying, box.State)
	_, err = c.Container(ctx, "box-2")
	require.NoError(t, err)

	got, created, err := c.Claim(ctx, "web", "alice", 1500*time.Millisecond)
	require.NoError(t, err)
	require.True(t, created)
	asked := b.Requests[0].(claim.Request)
	require.NotEmpty(t, asked.ID)
	asked.ID = ""
	require.Equal(t, claim.Request{Workload: "web", Tenant: "alice", Wait: 1500 * time.Millisecond, Actor: "local"}, asked)
	_, created, err = c.Claim(ctx, "web", "alice", 0)
	require.NoError(t, err)
	require.False(t, created)
	test, err := c.TestHooks(ctx, got.ID, client.PreRelease)
	require.NoError(t, err)
	require.EqualValues(t, "test.pre_release", test.Runs[0].Event)
	live, err := c.Claims(ctx, client.ClaimFilter{Tenant: "alice"})
	require.NoError(t, err)
	require.Len(t, live, 1)
	published, err := c.Publish(ctx, got.ID, client.Publication{Type: "x", Data: []byte("{}"), Priority: new(0)})
	require.NoError(t, err)
	require.EqualValues(t, "custom.x", published.Type)
	doing, err := c.SetActivity(ctx, got.ID, client.ActivityReport{Activity: "executing", Tool: "grep"})
	require.NoError(t, err)
	require.True(t, doing.Changed)
	page, err := c.Events(ctx, client.EventQuery{EventFilter: client.EventFilter{Types: []client.EventType{"agent.*"}, Untrusted: new(true), MinPriority: 7}}, 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	released, err := c.Release(ctx, got.ID, true)
	require.NoError(t, err)
	require.Equal(t, client.ClaimReleased, released.State)
	_, err = c.GetClaim(ctx, got.ID)
	require.NoError(t, err)
	_, err = c.Runs(ctx, client.RunFilter{})
	require.NoError(t, err)
	gone, err := c.DeleteWorkload(ctx, "web")
	require.NoError(t, err)
	require.True(t, gone)
	health, err := c.Health(ctx)
	require.NoError(t, err)
	require.Equal(t, "ok", health.Status)
}

// An id with a slash is an id, not a path.
func TestIDsAreEscaped(t *testing.T) {
	_, err := serveThrough(t, apitest.New(), nil).GetClaim(t.Context(), "../pools")
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 404, e.Status)
}

// An error of the server is an *Error with its code and when to ask again.
func TestClientErrors(t *testing.T) {
	b := apitest.New()
	b.Fail("claim", &claim.UnavailableError{Workload: "web", Reason: claim.Exhausted, Detail: "5 of 5 are taken", RetryAfter: 2 * time.Second})
	_, _, err := serveThrough(t, b, nil).Claim(t.Context(), "web", "alice", 0)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.CodePoolExhausted, e.Code)
	require.Equal(t, "exhausted", e.Reason)
	require.Equal(t, 2*time.Second, e.RetryAfter)
	require.ErrorContains(t, err, "5 of 5")
	require.Len(t, b.Requests, 1, "an answer is not asked for again")

	proxy := serveThrough(t, b, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	})
	_, err = proxy.Pools(t.Context())
	require.ErrorAs(t, err, &e)
	require.Equal(t, 502, e.Status)
	require.ErrorContains(t, err, "not as Hostler")
}

// A broken connection is retried a few times.
func TestBrokenConnectionIsRetried(t *testing.T) {
	_, err := serveThrough(t, apitest.New(), breakFirst(2)).Pools(t.Context())
	require.NoError(t, err)
	_, err = serveThrough(t, apitest.New(), breakFirst(1000)).Pools(t.Context())
	require.ErrorIs(t, err, client.ErrNoResponse)
	require.ErrorContains(t, err, "http://127")
	// By then the tenant may have claimed and released.
	_, err = serveThrough(t, apitest.New(), breakFirst(1)).Restore(t.Context(), "web", "alice", "s")
	require.ErrorIs(t, err, client.ErrNoResponse)
	_, err = client.New("127.0.0.1:8700", "")
	require.ErrorContains(t, err, "http://")
}

// However often the connection breaks, a follower sees each event once and in
// order.
func TestFollowResumes(t *testing.T) {
	const events = 300
	b := apitest.New()
	var connections atomic.Int32
	c := serveThrough(t, b, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connections.Add(1)
			h.ServeHTTP(&breakingWriter{ResponseWriter: w, left: 4000}, r)
		})
	})
	for range events / 2 {
		b.Append(activity.Event{Type: activity.PoolWarning})
	}
	group := errgroup.Group{}
	group.Go(func() error {
		for range events / 2 {
			b.Append(activity.Event{Type: activity.PoolWarning})
		}
		return nil
	})
	done := errors.New("done")
	var seen int64
	err := c.Follow(t.Context(), client.EventQuery{After: "0"}, func(e client.FollowedEvent) error {
		if e.Seq != seen+1 {
			return fmt.Errorf("event %d came after %d", e.Seq, seen)
		}
		if seen = e.Seq; seen == events {
			return done
		}
		return nil
	})
	require.Equal(t, done, err)
	require.NoError(t, group.Wait())
	require.Greater(t, connections.Load(), int32(3))
}

// breakingWriter breaks the connection after some bytes, in the middle of whatever
// is being written.
type breakingWriter struct {
	http.ResponseWriter
	left int
}

func (b *breakingWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b *breakingWriter) Write(p []byte) (int, error) {
	if len(p) <= b.left {
		b.left -= len(p)
		return b.ResponseWriter.Write(p)
	}
	b.ResponseWriter.Write(p[:b.left]) //nolint:errcheck // it breaks anyway
	b.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// A failure to connect the first time, or an invalid query, is returned at once.
func TestFollowRefused(t *testing.T) {
	nothing := func(client.FollowedEvent) error { return nil }
	var e *client.Error
	require.ErrorAs(t, serveThrough(t, apitest.New(), nil).Follow(t.Context(), client.EventQuery{After: "7"}, nothing), &e)
	require.Equal(t, client.CodeInvalidRequest, e.Code)
	require.Error(t, serveThrough(t, apitest.New(), breakFirst(1)).Follow(t.Context(), client.EventQuery{}, nothing))
}

// A page has what was asked for.
func TestEvents(t *testing.T) {
	b := apitest.New()
	b.Append(activity.Event{Type: activity.PoolWarning}, activity.Event{Type: activity.HookFailed, Tenant: "alice"})
	page, err := serveThrough(t, b, nil).Events(t.Context(), client.EventQuery{EventFilter: client.EventFilter{Types: []client.EventType{"hook"}, Tenant: "alice"}}, 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.EqualValues(t, 2, page.Next)
}
