package fake_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// echoAll returns what it has received when the peer sends no more.
func echoAll(conn net.Conn) {
	data, err := io.ReadAll(conn)
	if err == nil {
		_, _ = conn.Write(data) // the peer may have gone
	}
	conn.Close()
}

// A connection can be closed in one direction, and ends with its fence.
func TestDialPort(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	_, err := rt.DialPort(t.Context(), id, 80, claimFence)
	require.ErrorIs(t, err, runtime.ErrPortRefused)
	closePort := rt.Listen(id, 80, echoAll)
	conn, err := rt.DialPort(t.Context(), id, 80, claimFence)
	require.NoError(t, err)
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	data, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello", string(data))
	require.NoError(t, conn.Close())

	conn, err = rt.DialPort(t.Context(), id, 80, claimFence)
	require.NoError(t, err)
	require.NoError(t, rt.ClosePorts(t.Context(), id, claimFence+1))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	_, err = rt.DialPort(t.Context(), id, 80, claimFence)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	closePort()
	_, err = rt.DialPort(t.Context(), id, 80, claimFence+1)
	require.ErrorIs(t, err, runtime.ErrPortRefused)
}

// Only so many connections are open at once, and each holds only so much.
func TestDialPortLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		released := make(chan struct{})
		rt.Listen(id, 80, func(conn net.Conn) { <-released; conn.Close() })
		var conns []runtime.PortConn
		for range runtime.MaxPortConnections {
			conn, err := rt.DialPort(t.Context(), id, 80, claimFence)
			require.NoError(t, err)
			conns = append(conns, conn)
		}
		_, err := rt.DialPort(t.Context(), id, 80, claimFence)
		require.ErrorIs(t, err, runtime.ErrTooManyConnections)
		written := make(chan int)
		go func() {
			n, _ := conns[0].Write(make([]byte, 2*runtime.PortWindow)) // it is closed
			written <- n
		}()
		synctest.Wait()
		require.NoError(t, conns[0].Close())
		require.Equal(t, runtime.PortWindow, <-written)
		_, err = rt.DialPort(t.Context(), id, 80, claimFence)
		require.NoError(t, err)
		close(released)
	})
}

// What ends every process closes connections, and a process that ends listens no
// more.
func TestPortsEndWithTheContainer(t *testing.T) {
	rt := fake.New()
	rt.AddProgram("serve", func(_ context.Context, p *fake.Proc) int {
		p.Listen(8080, echoAll)
		return fake.Park
	})
	id := startContainer(t, rt)
	s := openCommand(t, rt, id, runtime.TenantCommand{ID: "serve", Args: []string{"serve"}, Fence: claimFence})
	testenv.AwaitTrue(t, "the port", func() bool {
		conn, err := rt.DialPort(t.Context(), id, 8080, claimFence)
		return err == nil && conn.Close() == nil
	})
	conn, err := rt.DialPort(t.Context(), id, 8080, claimFence)
	require.NoError(t, err)
	require.NoError(t, rt.Restart(t.Context(), id, claimFence))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, runtime.ErrContainerExited)
	readOutput(t, s)
	_, err = rt.DialPort(t.Context(), id, 8080, claimFence)
	require.ErrorIs(t, err, runtime.ErrPortRefused)
}

// oneListener is a net.Listener for one connection.
type oneListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }

// A server and a client of package net/http work over such connections.
func TestPortServesHTTP(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	l := &oneListener{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello "+r.URL.Path)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }() // it is closed
	rt.Listen(id, 80, func(conn net.Conn) {
		l.conns <- conn
		<-l.done
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := rt.DialPort(ctx, id, 80, claimFence)
		if err != nil {
			return nil, err
		}
		return conn.(net.Conn), nil
	}}
	client := &http.Client{Transport: transport}
	for range 2 {
		answer, err := client.Get("http://claim/path")
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, "hello /path", string(body))
	}
	transport.CloseIdleConnections()
	close(l.done)
	require.NoError(t, server.Close())
	<-served
}
