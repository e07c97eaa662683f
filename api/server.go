package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits on connections. A whole response has none, because a claim may wait
// for minutes and a stream does not end: each write has its own instead.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaderSize = 24 << 10
	// headerSlop is what net/http reads beyond its limit.
	headerSlop = 4 << 10
	// What a connection with HTTP/2 may have the server keep before a handler reads it.
	maxFrame   = 16 << 10
	maxWindow  = 128 << 10
	maxStreams = 100
	// unreadTimeout bounds how long a client with HTTP/2 reads nothing, or does not
	// answer a ping.
	unreadTimeout = 20 * time.Second
)

// NewServer returns a server with the limits that the API needs.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderSize - headerSlop,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: maxWindow, MaxReceiveBufferPerStream: maxWindow,
			// A client that reads nothing: the deadlines of streams only queue a frame.
			WriteByteTimeout: unreadTimeout, SendPingTimeout: unreadTimeout, PingTimeout: unreadTimeout,
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Close ends current and later event streams, and makes readyz report that the
// server is stopping. Call it before http.Server.Shutdown, which would wait for
// streams that never end. A second call does nothing.
func (a *API) Close() { a.closeOnce.Do(func() { close(a.closing) }) }
