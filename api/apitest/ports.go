package apitest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Ports returns what connects to ports: of every container, those of this machine.
// The gates may be nil.
func (b *Backend) Ports(gates access.Gates, uses access.Uses) *access.Service {
	return access.New(access.Options{
		Claims: portClaims{b}, Workloads: noWorkloads{}, Runtime: machine{}, Gates: gates, Uses: uses,
		Log: slog.New(slog.DiscardHandler),
	})
}

// portClaims has the claims of a backend.
type portClaims struct{ b *Backend }

func (c portClaims) Claim(ctx context.Context, id string) (claim.Claim, error) {
	return records{c.b}.Claim(ctx, id)
}

func (c portClaims) Touch(ctx context.Context, id string) (claim.Claim, error) {
	return c.Claim(ctx, id)
}

// noWorkloads has none: no claim becomes idle.
type noWorkloads struct{}

func (noWorkloads) Current(context.Context, string) (*workload.Workload, pool.Record, error) {
	return nil, pool.Record{}, pool.ErrWorkloadNotFound
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
