package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/transport"
)

// The connections of each listener count, and their requests, of which the sender may
// have none here. One through the socket still has the user of its other end: without
// it, the host's name would be refused.
func TestListenersAreBounded(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	c := serveConfig{listen: "127.0.0.1:0", listeners: listenConfig{unix: filepath.Join(t.TempDir(), "socket")}}
	l, err := listen(c, log)
	require.NoError(t, err)
	l.connections = transport.NewConnections(transport.Limits{Total: 10, PerAddress: 10})
	require.NoError(t, l.tcp.Close())
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.tcp = l.connections.Listen(tcp)
	server := l.newServer(api.New(apitest.New().Options()), log)
	g, ctx := errgroup.WithContext(t.Context())
	l.run(ctx, g, server)
	answer := func(network, address string) string {
		conn, err := new(net.Dialer).DialContext(context.WithoutCancel(ctx), network, address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprint(conn, "GET /v1/pools HTTP/1.1\r\nHost: example.com\r\n\r\n")
		require.NoError(t, err)
		status := make([]byte, len("HTTP/1.1 200"))
		_, err = io.ReadFull(conn, status)
		require.NoError(t, err)
		return string(status)
	}
	require.Equal(t, "HTTP/1.1 429", answer("unix", c.listeners.unix))
	require.Equal(t, "HTTP/1.1 403", answer("tcp", l.tcp.Addr().String()))
	open, _, _ := l.connections.Counts()
	require.Equal(t, 2, open)
	require.NoError(t, server.Close())
	require.NoError(t, g.Wait())
}
