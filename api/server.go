package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits on connections. A whole response has none, because a claim may wait
// for minutes and a stream does not end: each write has its own instead.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaderSize = 64 << 10
)

// NewServer returns a server with the limits that the API needs.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderSize,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Close ends current and later event streams, and makes readyz report that the
// server is stopping. Call it before http.Server.Shutdown, which would wait for
// streams that never end. A second call does nothing.
func (a *API) Close() { a.closeOnce.Do(func() { close(a.closing) }) }
