package runtimetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// A connection belongs to the claim of its fence.
func portFence(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "echo")
	earlier, current := l.dial(t, 4), l.dial(t, 5)
	_, err := l.rt.DialPort(t.Context(), l.id, l.port, 4)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	require.ErrorIs(t, l.rt.ClosePorts(t.Context(), l.id, 4), runtime.ErrStaleFence)
	requireEcho(t, earlier)
	require.NoError(t, l.rt.ClosePorts(t.Context(), l.id, 5))
	requireFails(t, earlier)
	requireEcho(t, current)
	require.NoError(t, l.rt.ClosePorts(t.Context(), l.id, 6))
	require.NoError(t, l.rt.ClosePorts(t.Context(), l.id, 6), "again")
	requireFails(t, current)
	_, err = l.rt.DialPort(t.Context(), l.id, l.port, 5)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	requireEcho(t, l.dial(t, 6))
}

// A restart and a stop close every connection, those that open at the same time
// included. The kernel may end one as its program would, which is killed.
func portRestart(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "echo")
	before := l.dial(t, 2)
	requireEcho(t, before)
	require.NoError(t, l.rt.Restart(t.Context(), l.id, 2))
	_ = requireEnds(t, before) // an error, or the end
	l.awaitFence(t, 2)
	after := l.dial(t, 2)
	requireEcho(t, after)

	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan runtime.PortConn, 1<<16)
	var dialers sync.WaitGroup
	for range 4 {
		dialers.Go(func() {
			for ctx.Err() == nil {
				if conn, err := l.rt.DialPort(ctx, l.id, l.port, 2); err == nil {
					opened <- conn
				} else {
					<-time.After(time.Millisecond)
				}
				if len(opened) > runtime.MaxPortConnections {
					return
				}
			}
		})
	}
	err := l.rt.Stop(t.Context(), l.id, 3)
	cancel()
	dialers.Wait()
	close(opened)
	require.NoError(t, err)
	_ = requireEnds(t, after) // an error, or the end
	for conn := range opened {
		_ = requireEnds(t, conn) // an error, or the end
		require.NoError(t, conn.Close())
	}
	_, err = l.rt.DialPort(t.Context(), l.id, l.port, 3)
	require.ErrorIs(t, err, runtime.ErrPortRefused, "the main process has ended")
}

// awaitFence is await for a later claim.
func (l *listening) awaitFence(t *testing.T, fence int64) {
	t.Helper()
	testenv.AwaitTrue(t, "the main process listens again", func() bool {
		conn, err := l.rt.DialPort(t.Context(), l.id, l.port, fence)
		if err != nil {
			return false
		}
		require.NoError(t, conn.Close())
		return true
	})
}

// The client closes a connection: the program gets an error, and its place is free.
func portClosed(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "source")
	for range 2 * runtime.MaxPortConnections {
		conn := l.dialWhenRoom(t)
		require.NoError(t, conn.Close())
		require.NoError(t, conn.Close(), "again")
		_, err := conn.Write([]byte("x"))
		require.Error(t, err)
	}
	testenv.AwaitTrue(t, "the program's writes fail", func() bool { return l.log(t, 1<<20) != "listening\n" })
}

// A container that exits ends its connections.
func portExit(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "echo")
	conn := l.dial(t, 1)
	requireEcho(t, conn)
	_, _ = l.exec(t, l.command("kill", "main", "KILL")) // the response may be lost with the container
	testenv.AwaitTrue(t, "the container exits", func() bool { return l.state(t, l.id) == runtime.Exited })
	_ = requireEnds(t, conn) // an error, or the end
	_, err := l.rt.DialPort(t.Context(), l.id, l.port, 1)
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.NoError(t, l.rt.ClosePorts(t.Context(), l.id, 2), "it has none")
}

// A call whose context has ended opens nothing.
func portCanceled(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "echo")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := fmt.Errorf("the client left")
	cancel(cause)
	_, err := l.rt.DialPort(ctx, l.id, l.port, 1)
	require.ErrorIs(t, err, cause)
	requireEcho(t, l.dial(t, 1))
}
