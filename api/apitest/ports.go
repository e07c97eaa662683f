package apitest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/runtime"
)

// Ports returns what connects to ports: of every container, the backend's programs,
// and the ports of this machine. The gates may be nil.
func (b *Backend) Ports(gates access.Gates, uses access.Uses) *access.Service {
	return access.New(access.Options{
		Claims: fileClaims{b}, Workloads: noWorkloads{}, Runtime: machine{b: b}, Gates: gates, Uses: uses,
		Log: slog.New(slog.DiscardHandler),
	})
}

// RefusedPort returns a port of this machine on which nothing listens. No one else
// gets it before the end of the test.
func RefusedPort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() }) //nolint:errcheck // it was only listened on
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	conn, err := d.DialContext(tb.Context(), "tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() }) //nolint:errcheck // it has carried nothing
	return conn.LocalAddr().(*net.TCPAddr).Port
}

// machine is a runtime whose containers have the ports of the backend and of this
// machine.
type machine struct {
	access.Runtime
	b *Backend
}

func (m machine) DialPort(ctx context.Context, _ string, port int, _ int64) (runtime.PortConn, error) {
	m.b.mu.Lock()
	program := m.b.Programs[port]
	m.b.mu.Unlock()
	if program != nil {
		return program(ctx)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String())
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, runtime.ErrPortRefused
	}
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}
