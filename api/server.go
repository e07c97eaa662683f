package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits on connections. There is none on a whole answer, for a claim may wait
// for minutes and a stream goes on: each write has its own instead.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaderSize = 64 << 10
)

// NewServer returns a server with the limits that the API is made for.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderSize,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Close ends the streams of events, now and from now on, and has readyz say
// that the server stops. Call it before http.Server.Shutdown, which would wait
// for streams that never end. Closing twice is harmless.
func (a *API) Close() { a.closeOnce.Do(func() { close(a.closing) }) }
