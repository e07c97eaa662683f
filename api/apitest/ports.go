package apitest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/runtime"
)

// Ports returns what connects to ports: of every container, those of this machine.
// The gates may be nil.
func (b *Backend) Ports(gates access.Gates, uses access.Uses) *access.Service {
	return access.New(access.Options{
		Claims: fileClaims{b}, Workloads: noWorkloads{}, Runtime: machine{}, Gates: gates, Uses: uses,
		Log: slog.New(slog.DiscardHandler),
	})
}

// machine is a runtime whose containers have the ports of this machine.
type machine struct{ access.Runtime }

func (machine) DialPort(ctx context.Context, _ string, port int, _ int64) (runtime.PortConn, error) {
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
