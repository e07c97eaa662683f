package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
)

// dial opens a WebSocket below the path of the claim's commands.
func (s *commandServer) dial(path string, header http.Header) (*websocket.Conn, *http.Response, error) {
	s.T.Helper()
	url := "ws" + strings.TrimPrefix(s.server.URL, "http") + "/v1/claims/" + s.claim.ID + "/exec" + path
	conn, resp, err := websocket.Dial(s.T.Context(), url, &websocket.DialOptions{HTTPClient: s.server.Client(), HTTPHeader: header})
	if err == nil {
		s.T.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

// socketLog is what a WebSocket has sent.
type socketLog struct {
	stdout, stderr string
	passed         int64 // input
	event          api.SocketEvent
}

// receive receives messages until the condition is true.
func (l *socketLog) receive(t *testing.T, conn *websocket.Conn, until func() bool) {
	t.Helper()
	for !until() {
		kind, data, err := conn.Read(t.Context())
		require.NoError(t, err, "%+v", l)
		if kind == websocket.MessageText {
			l.event = api.SocketEvent{}
			require.NoError(t, json.Unmarshal(data, &l.event))
			l.passed = max(l.passed, l.event.Offset)
			continue
		}
		if data[0] == 1 {
			l.stdout += string(data[1:])
		} else {
			l.stderr += string(data[1:])
		}
	}
}

func sendText(t *testing.T, conn *websocket.Conn, text string) {
	t.Helper()
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
}

// A WebSocket carries the streams of a command from its start to its end.
func TestSocketOfCommand(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	conn, _, err := s.dial("/attach", nil)
	require.NoError(t, err)
	sendText(t, conn, `{"type":"start","start":{"id":"c","command":["copy"],"input":true}}`)
	var got socketLog
	got.receive(t, conn, func() bool { return got.event.Start != nil })
	require.Equal(t, &api.CommandStart{ID: "c", Created: true}, got.event.Start)
	require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, []byte("\x00hello")))
	got.receive(t, conn, func() bool { return got.stdout == "hello" && got.passed == 5 })
	sendText(t, conn, `{"type":"ack","offset":2}`)
	sendText(t, conn, `{"type":"resize","rows":2,"columns":2}`)
	sendText(t, conn, `{"type":"signal","signal":"SIGWINCH"}`)

	again, _, err := s.dial("/c/attach?after=3", nil)
	require.NoError(t, err)
	got.receive(t, conn, func() bool { return got.event.Error != nil })
	require.Equal(t, api.AttachedElsewhere, got.event.Error.Code)
	sendText(t, again, `{"type":"close_stdin"}`)
	got = socketLog{}
	got.receive(t, again, func() bool { return got.event.Type == "exit" })
	require.Equal(t, "lo", got.stdout)
	require.Equal(t, "5 bytes", got.stderr)
	require.Equal(t, 3, got.event.Result.ExitCode)
	_, _, err = again.Read(t.Context())
	require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err))
}

// A client that sends something when another one has taken its place learns that:
// otherwise it would attach again, and take the place back.
func TestReplacedSocketThatSends(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	id := s.start(`{"command":["copy"],"detach":true,"input":true}`)
	pinged, answer := make(chan struct{}), make(chan struct{})
	wait := sync.OnceFunc(func() { close(pinged); <-answer })
	url := "ws" + strings.TrimPrefix(s.server.URL, "http") + "/v1/claims/" + s.claim.ID + "/exec/" + id + "/attach"
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{
		HTTPClient:     s.server.Client(),
		OnPingReceived: func(context.Context, []byte) bool { wait(); return true },
	})
	require.NoError(t, err)
	defer conn.CloseNow() //nolint:errcheck // it is over
	var got socketLog
	done := make(chan struct{})
	go func() { // ends with the last message
		defer close(done)
		got.receive(t, conn, func() bool { return got.event.Error != nil })
	}()
	<-pinged // until it is answered, the server sends nothing
	_, _, err = s.dial("/"+id+"/attach", nil)
	require.NoError(t, err)
	for _, text := range []string{`{"type":"ack","offset":0}`, `{"type":"resize","rows":2,"columns":2}`, `{"type":"signal","signal":"SIGWINCH"}`} {
		sendText(t, conn, text)
	}
	close(answer)
	<-done
	require.NotNil(t, got.event.Error)
	require.Equal(t, api.AttachedElsewhere, got.event.Error.Code)
}

// A WebSocket that may not be, or whose command does not start, is refused with the
// reason.
func TestSocketIsRefused(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	for path, want := range map[string]int{"/none/attach": 404, "/c/attach?after=x": 422} {
		_, resp, err := s.dial(path, nil)
		require.Error(t, err)
		require.Equal(t, want, resp.StatusCode)
	}
	_, resp, err := s.dial("/attach", http.Header{"Origin": {"https://evil.example"}})
	require.Error(t, err)
	require.Equal(t, 403, resp.StatusCode)

	for text, code := range map[string]api.Code{
		`{"type":"start","start":{"command":["nope"]}}`: api.CommandNotStarted,
		`{"type":"start","start":{"command":[]}}`:       api.InvalidRequest,
		`{"type":"ack"}`: api.InvalidRequest,
		`{`:              api.InvalidRequest,
	} {
		conn, _, err := s.dial("/attach", nil)
		require.NoError(t, err)
		sendText(t, conn, text)
		var got socketLog
		got.receive(t, conn, func() bool { return got.event.Error != nil })
		require.Equal(t, code, got.event.Error.Code, text)
	}
}

// Input that the container has no room for is bounded, and what is wrong ends the
// WebSocket. The command continues.
func TestSocketIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveCommands(t, commandWorkload, nil)
		for name, send := range map[string]func(*websocket.Conn) error{
			"more input than may wait": func(conn *websocket.Conn) error {
				part := make([]byte, 64<<10)
				for range 16 {
					if err := conn.Write(t.Context(), websocket.MessageBinary, part); err != nil {
						return nil // it is closed
					}
				}
				return nil
			},
			"another channel": func(conn *websocket.Conn) error {
				return conn.Write(t.Context(), websocket.MessageBinary, []byte("\x01x"))
			},
			"a message that is too long": func(conn *websocket.Conn) error {
				_ = conn.Write(t.Context(), websocket.MessageBinary, make([]byte, 1<<20)) // it may be closed
				return nil
			},
			"a message of no type": func(conn *websocket.Conn) error {
				return conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"x"}`))
			},
		} {
			id := s.start(`{"command":["box","hang"],"input":true,"detach":true}`)
			conn, _, err := s.dial("/"+id+"/attach", nil)
			require.NoError(t, err, name)
			require.NoError(t, send(conn), name)
			for err == nil {
				_, _, err = conn.Read(t.Context())
			}
			synctest.Wait()
			got := s.exec("GET", "/"+id, "").text
			require.NotContains(t, got, `"attached":true`, name)
			require.NotContains(t, got, "ended_at", name)
			require.Equal(t, 200, s.exec("DELETE", "/"+id, "").status, name)
		}
	})
}

// The end of the server ends a WebSocket, and not the command.
func TestSocketEndsWithServer(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	id := s.start(`{"command":["box","hang"],"detach":true}`)
	conn, _, err := s.dial("/"+id+"/attach", nil)
	require.NoError(t, err)
	s.api.Close()
	for err == nil {
		_, _, err = conn.Read(t.Context())
	}
	require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err))
	require.NotContains(t, s.exec("GET", "/"+id, "").text, "ended_at")
}
