package pipetest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Requests and responses of any size pass, and the clock of a bubble moves on while
// a peer waits.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			<-time.After(time.Hour)
			fmt.Fprint(w, r.RemoteAddr, string(body))
		}))
		large := strings.Repeat("x", 1<<20)
		for range 2 { // on one connection
			begin := time.Now()
			resp, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(large))
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, "127.0.0.1:40000"+large, string(text))
			require.Equal(t, time.Hour, time.Since(begin))
		}
	})
}

// Each direction of a connection has its own end and its own deadline.
func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen(1)
		client, err := l.Dial(t.Context())
		require.NoError(t, err)
		server, err := l.Accept()
		require.NoError(t, err)
		require.Equal(t, client.RemoteAddr(), server.LocalAddr())
		require.NoError(t, client.CloseWrite())
		text, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Empty(t, text)

		require.NoError(t, server.SetDeadline(time.Now().Add(time.Second)))
		_, err = server.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		go server.Close()
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		_, err = server.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

// A listener that is closed refuses connections, and ends those that it has not
// accepted.
func TestListenerIsClosed(t *testing.T) {
	l := Listen(1)
	waiting, err := l.Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err = waiting.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = l.Dial(t.Context())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = l.Accept()
	require.Error(t, err)
}
