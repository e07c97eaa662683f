package api_test

import (
	"net/http"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// A page of another origin, and a request that is no WebSocket, attach to nothing:
// the reader of a command keeps its place, and its output is not acknowledged.
func TestAttachingOfOthers(t *testing.T) {
	s := serveCommands(t, commandWorkload, nil)
	conn, _, err := s.dial("/attach", nil)
	require.NoError(t, err)
	sendText(t, conn, `{"type":"start","start":{"id":"c","command":["copy"],"input":true}}`)
	var got socketLog
	require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, []byte("\x00hello")))
	got.receive(t, conn, func() bool { return got.stdout == "hello" && got.passed == 5 })
	for _, page := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example", "Origin: null"} {
		for _, path := range []string{"/attach", "/c/attach?after=5", "/c/output?after=5", "/c/output"} {
			for _, method := range []string{"HEAD", "GET"} {
				require.Equal(t, 403, s.exec(method, path, "", page).status, "%s %s %s", method, path, page)
			}
		}
	}
	_, resp, err := s.dial("/c/attach?after=5", http.Header{"Origin": {"https://evil.example"}})
	require.Error(t, err)
	require.Equal(t, 403, resp.StatusCode)
	require.Equal(t, http.StatusUpgradeRequired, s.exec("GET", "/c/attach?after=5", "").status)
	require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, []byte("\x00 again")))
	got.receive(t, conn, func() bool { return got.stdout == "hello again" })
	require.Nil(t, got.event.Error)
}
