package api_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/internal/pipetest"
)

// openStream opens a stream of events and reads its lines.
func openStream(t *testing.T, server *pipetest.Server, query string, headers ...string) *bufio.Scanner {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/events"+query, nil)
	require.NoError(t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return bufio.NewScanner(resp.Body)
}

// The path of streams has JSON lines, or server-sent events where they are accepted,
// and the same parameters as pages.
func TestStreamHasItsOwnPath(t *testing.T) {
	server := startServer(t, newTestBackend())
	require.Contains(t, nextLine(t, openStream(t, server, "/stream?after=1&type=hook.failed")), `{"seq":3`)
	lines := openStream(t, server, "/stream?since=2000-01-01T00:00:00Z", sse)
	require.Equal(t, "retry: 2000", nextLine(t, lines))
	lines = openStream(t, server, "/stream", sse, "Last-Event-ID: 2")
	require.Equal(t, "retry: 2000", nextLine(t, lines))
	require.Equal(t, "id: 2", nextLine(t, lines))
}

// nextLine returns the next line that is not empty.
func nextLine(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if lines.Text() != "" {
			return lines.Text()
		}
	}
	t.Fatal("the stream ended:", lines.Err())
	return ""
}

const sse = "Accept: text/event-stream"

// A stream resumes after the Last-Event-ID, whatever the query, and continues
// with new events.
func TestStreamResumes(t *testing.T) {
	b := newTestBackend()
	lines := openStream(t, startServer(t, b), "?after=0", sse, "Last-Event-ID: 2")
	require.Equal(t, "retry: 2000", nextLine(t, lines))
	require.Equal(t, "id: 2", nextLine(t, lines))
	require.Equal(t, "id: 3", nextLine(t, lines))
	require.Contains(t, nextLine(t, lines), `data: {"seq":3`)
	b.Append(activity.Event{Type: activity.PoolDrained, Message: "drained"})
	require.Equal(t, "id: 4", nextLine(t, lines))
	require.Contains(t, nextLine(t, lines), `"pool.drained"`)
}

// Without a sequence number a stream has only new events; JSON lines can be
// requested in two ways.
func TestStreamStartsAtEnd(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	for i, lines := range []*bufio.Scanner{
		openStream(t, server, "?follow=true"),
		openStream(t, server, "", "Accept: application/x-ndjson;q=0.9, text/html"),
		openStream(t, server, "?follow=true&type=pool,claim.failed"),
	} {
		b.Append(activity.Event{Type: activity.PoolDrained, Message: fmt.Sprint("drained ", i)})
		require.Contains(t, nextLine(t, lines), `"pool.drained"`)
	}
}

// Deleted events are reported once, in their place in the stream.
func TestStreamReportsTruncation(t *testing.T) {
	b := newTestBackend()
	b.Truncate(3)
	server := startServer(t, b)
	lines := openStream(t, server, "?after=0&follow=true")
	require.Contains(t, nextLine(t, lines), `"type":"log.truncated"`)
	require.Contains(t, nextLine(t, lines), `{"seq":3`)
	b.Append(activity.Event{Type: activity.PoolDrained})
	require.Contains(t, nextLine(t, lines), `{"seq":4`)
	require.EqualValues(t, 3, request(t, server, "GET /v1/events", "").body["oldest_seq"])
}

// An idle stream sends heartbeats, with the id to resume from.
func TestStreamHeartbeat(t *testing.T) {
	server := startServer(t, newTestBackend(), func(o *api.Options) { o.Heartbeat = 5 * time.Millisecond })
	lines := openStream(t, server, "?after=0&type=pool", sse)
	require.Equal(t, "retry: 2000", nextLine(t, lines))
	require.Equal(t, "id: 0", nextLine(t, lines))
	require.Equal(t, ": heartbeat", nextLine(t, lines))
	require.Equal(t, "id: 3", nextLine(t, lines))
}

// Every follower gets every event once and in order, while one that does not
// read is disconnected.
func TestSlowFollowerIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events, followers, size = 1500, 4, 16 << 10
		b, cut := apitest.New(), make(disconnectLog, 1)
		server := startServer(t, b, func(o *api.Options) {
			o.Log = slog.New(slog.NewTextHandler(cut, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})

		slow := server.Dial()
		fmt.Fprintf(slow, "GET /v1/events?after=0&follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n")

		group, ctx := errgroup.WithContext(t.Context())
		for range followers {
			group.Go(func() error { return expectInOrder(ctx, server, events) })
		}
		group.Go(func() error {
			for range events {
				b.Append(activity.Event{Type: activity.PoolWarning, Message: strings.Repeat("x", size)})
			}
			return nil
		})
		require.NoError(t, group.Wait())

		<-cut
		// Its connection was closed: it ends before the log does.
		got := 0
		lines := bufio.NewScanner(slow)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), `{"seq"`) {
				got++
			}
		}
		require.Less(t, got, events)
	})
}

// disconnectLog reports when a follower is disconnected because a write took
// too long.
type disconnectLog chan struct{}

func (l disconnectLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("event stream ended")) && bytes.Contains(line, []byte("i/o timeout")) {
		select {
		case l <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

func expectInOrder(ctx context.Context, server *pipetest.Server, events int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/events?after=0&follow=true", nil)
	if err != nil {
		return err
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for want := int64(1); want <= events; {
		if !lines.Scan() {
			return fmt.Errorf("event %d: %w", want, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
		}
		if len(lines.Bytes()) == 0 {
			continue
		}
		if !bytes.HasPrefix(lines.Bytes(), fmt.Appendf(nil, `{"seq":%d,`, want)) {
			return fmt.Errorf("%.100s came instead of event %d", lines.Bytes(), want)
		}
		want++
	}
	return nil
}

// When the server stops, streams end, and the shutdown does not wait for them.
func TestCloseEndsStreams(t *testing.T) {
	handler := api.New(newTestBackend().Options())
	server := pipetest.Serve(t, api.NewServer(handler, slog.New(slog.DiscardHandler)))
	lines := openStream(t, server, "?after=0", sse)
	require.Equal(t, "retry: 2000", nextLine(t, lines))
	handler.Close()
	handler.Close()
	for lines.Scan() { //nolint:revive // read to the end
	}
	require.NoError(t, lines.Err())
	require.Equal(t, "not_ready", request(t, server, "GET /readyz", "").body["code"])
	require.NoError(t, server.Config.Shutdown(t.Context()))
}

// HEAD does not start a stream.
func TestHeadOpensNoStream(t *testing.T) {
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "http://localhost/v1/events", nil)
	r.Header.Set("Accept", "text/event-stream")
	api.New(newTestBackend().Options()).ServeHTTP(rec, r)
	require.Equal(t, 200, rec.Code)
}
