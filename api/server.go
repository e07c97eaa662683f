package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits on connections. A whole response of a handler has none, because a claim may
// wait for minutes and a stream does not end: each write has its own instead.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaderSize = 16 << 10
	// headerSlop is what net/http reads beyond its limit.
	headerSlop = 4 << 10
	// What a connection with HTTP/2 may have the server keep before a handler reads it.
	// Package transport counts it. A body that nothing reads leaves room for others.
	maxFrame            = 16 << 10
	maxWindow           = 128 << 10
	maxConnectionWindow = 4 * maxWindow
	// maxStreams are the requests of a connection with HTTP/2 at once. Go's client and
	// proxies open a further connection beyond that.
	maxStreams = 8
	// unreadTimeout bounds how long a client with HTTP/2 reads nothing, or does not
	// answer a ping, and how long net/http's own refusals wait for a client.
	unreadTimeout = 20 * time.Second
)

// NewServer returns a server with the limits that the API needs.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      unreadTimeout, // the middleware removes it
		MaxHeaderBytes:    maxHeaderSize - headerSlop,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: maxConnectionWindow, MaxReceiveBufferPerStream: maxWindow,
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
