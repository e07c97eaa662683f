package access

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// portBackend has active claims, of the tenant that a claim's id begins with, and
// containers whose programs echo.
type portBackend struct {
	Runtime
	Uses
	state  claim.State
	failed error // of DialPort
	denied error
	done   []RequestDone
	dialed []int64 // the fences
}

func (b *portBackend) service() *Service {
	return New(Options{Claims: b, Workloads: b, Runtime: b, Gates: b, Uses: b, Log: slog.New(slog.DiscardHandler)})
}

func (b *portBackend) Claim(_ context.Context, id string) (claim.Claim, error) {
	return claim.Claim{ID: id, Tenant: id[:1], State: b.state, Container: "box", ContainerFence: 7}, nil
}

func (b *portBackend) Touch(ctx context.Context, id string) (claim.Claim, error) {
	return b.Claim(ctx, id)
}

func (b *portBackend) Current(context.Context, string) (*workload.Workload, pool.Record, error) {
	return nil, pool.Record{}, pool.ErrWorkloadNotFound
}

func (b *portBackend) DialPort(_ context.Context, _ string, _ int, fence int64) (runtime.PortConn, error) {
	b.dialed = append(b.dialed, fence)
	ours, theirs := net.Pipe()
	go io.Copy(theirs, theirs) //nolint:errcheck // it ends with the connection
	return halfConn{ours}, b.failed
}

type halfConn struct{ net.Conn }

func (halfConn) CloseWrite() error { return nil }

func (b *portBackend) Exec(context.Context, Grant, CommandUse) error          { return nil }
func (b *portBackend) File(context.Context, Grant, FileUse) ([]string, error) { return nil, nil }
func (b *portBackend) Request(context.Context, Grant, PortUse) error          { return b.denied }
func (b *portBackend) RequestCompleted(_ Grant, _ PortUse, done RequestDone) {
	b.done = append(b.done, done)
}

// A connection has the fence of its claim, and is recorded once, when it is closed.
func TestDial(t *testing.T) {
	b := &portBackend{state: claim.Active}
	conn, err := b.service().Dial(t.Context(), "a1", 80)
	require.NoError(t, err)
	require.Equal(t, []int64{7}, b.dialed)
	_, err = conn.Write([]byte("ping"))
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Empty(t, b.done)
	require.NoError(t, conn.Close())
	require.NoError(t, conn.Close())
	require.Len(t, b.done, 1)
	b.done[0].Duration = 0
	require.Equal(t, RequestDone{Sent: 4, Received: 4}, b.done[0])
}

// What is refused reaches no container, and holds no place.
func TestDialRefused(t *testing.T) {
	denied := &DeniedError{Gate: "request.before", Hook: "h", Message: "no"}
	for name, c := range map[string]struct {
		b     portBackend
		want  error
		dials int
	}{
		"claim":  {portBackend{state: claim.Releasing}, claim.ErrNotActive, 0},
		"gate":   {portBackend{state: claim.Active, denied: denied}, denied, 0},
		"fence":  {portBackend{state: claim.Active, failed: runtime.ErrStaleFence}, claim.ErrNotActive, 1},
		"no one": {portBackend{state: claim.Active, failed: runtime.ErrPortRefused}, runtime.ErrPortRefused, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.b.service()
			for range maxPorts.perClaim + 1 {
				c.b.dialed = nil
				_, err := s.Dial(t.Context(), "a1", 80)
				require.ErrorIs(t, err, c.want)
				require.Len(t, c.b.dialed, c.dials)
			}
			require.Empty(t, c.b.done)
			require.Zero(t, s.connections.all)
		})
	}
	b := &portBackend{state: claim.Active, denied: denied}
	_, err := b.service().BeginRequest(t.Context(), "a1", PortUse{Port: 80, Method: "GET", Path: "/"})
	require.ErrorIs(t, err, denied)
}

// Connections are bounded for a claim, a tenant and the server, apart from requests,
// and those of one tenant leave room for others.
func TestPortLimits(t *testing.T) {
	b := &portBackend{state: claim.Active}
	s := b.service()
	open := map[string][]net.Conn{}
	dial := func(id string) (err error) {
		conn, err := s.DialForRequests(t.Context(), id, 80)
		if err == nil {
			open[id] = append(open[id], conn)
		}
		return err
	}
	fill := func(id string, n int, of string) {
		t.Helper()
		for range n {
			require.NoError(t, dial(id))
		}
		var tooMany *TooManyError
		require.ErrorAs(t, dial(id), &tooMany)
		require.Equal(t, of, tooMany.Of)
		require.Equal(t, time.Second, tooMany.Retry)
		require.True(t, errors.Is(tooMany, runtime.ErrTooManyConnections))
	}
	fill("a1", 256, "the claim")
	fill("a2", 256, "the claim")
	fill("a3", 0, "the tenant")
	for _, tenant := range []string{"b", "c", "d"} {
		fill(tenant+"1", 256, "the claim")
		fill(tenant+"2", 256, "the claim")
	}
	fill("e1", 0, "this server")
	for range 300 {
		r, err := s.BeginRequest(t.Context(), "e1", PortUse{Port: 80, Method: "GET"})
		require.NoError(t, err)
		r.End(200, 1, 2)
	}
	require.Len(t, b.done, 300)
	for _, all := range open {
		for _, conn := range all {
			require.NoError(t, conn.Close())
		}
	}
	require.Zero(t, s.connections.all)
	require.Empty(t, s.connections.byClaim)
	require.Empty(t, s.connections.byTenant)
	require.Zero(t, s.requests.all)
}
