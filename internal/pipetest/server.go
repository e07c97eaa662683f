package pipetest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// serverPort is the port of a Server.
const serverPort = 8080

// Server is an HTTP server in memory. Its Client reaches it, whatever the host of
// a URL.
type Server struct {
	*httptest.Server
	tb       testing.TB
	listener *Listener
}

// NewServer serves a handler until the end of the test.
func NewServer(tb testing.TB, h http.Handler) *Server {
	tb.Helper()
	return Serve(tb, &http.Server{Handler: h}) //nolint:gosec // the clients are the test
}

// Serve starts a server that runs until the end of the test.
func Serve(tb testing.TB, config *http.Server) *Server {
	tb.Helper()
	s := &Server{tb: tb, listener: Listen(serverPort)}
	s.Server = &httptest.Server{Listener: s.listener, Config: config}
	s.Start()
	transport := s.Client().Transport.(*http.Transport) //nolint:forcetypeassert // httptest has made it
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.listener.Dial(ctx) }
	tb.Cleanup(s.Close)
	return s
}

// Addr returns the host and port of the server's URL.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Dial opens a connection that ends with the test.
func (s *Server) Dial() *Conn {
	s.tb.Helper()
	conn, err := s.listener.Dial(s.tb.Context())
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { _ = conn.Close() }) // of a pipe, which has no errors
	return conn
}
