package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// newUnreadProgram returns a session with a program that reads nothing after the
// handshake.
func newUnreadProgram(dial func() error) *Session {
	return newSession("c", Options{
		Secret: secret, CheckRunning: alwaysRunning, UnresponsiveTimeout: time.Minute,
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			if err := dial(); err != nil {
				return nil, 0, err
			}
			ours, theirs := net.Pipe()
			go func() { // ends with the handshake
				_, _ = ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a", Main: MainRunning})
			}()
			return ours, Version, nil
		},
	})
}

// A program that does not read costs who asks for output no more than the bound, and
// nothing is left when the connection has ended for it.
func TestOutputUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newUnreadProgram(func() error { return nil })
		for range 3 {
			begin := time.Now()
			_, _, err := s.Output(t.Context(), "r")
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			require.Equal(t, outputTimeout, time.Since(begin))
			<-time.After(Server.writeTimeout) // then the connection ends
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := s.Output(ctx, "r")
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, s.Close())
	})
}

// Questions for output count nothing against a container, however long they fail: it
// may have the last copy of a tenant's state.
func TestOutputNeverTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, dialed := range map[string]error{"no session opens": errStreamBroken, "sessions are lost": nil} {
			s := newUnreadProgram(func() error { return dialed })
			if dialed == nil {
				s = newSession("c", Options{
					Secret: secret, CheckRunning: alwaysRunning, UnresponsiveTimeout: time.Minute,
					Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
						ours, theirs := net.Pipe()
						go func() { // ends with the first request
							channel, err := ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a", Main: MainRunning})
							if err == nil {
								NewConn(theirs, channel, func(*Incoming) error { return errors.New("ends") }, nil).Run()
							}
						}()
						return ours, Version, nil
					},
				})
			}
			for range 60 {
				_, _, err := s.Output(t.Context(), "r")
				require.Error(t, err, name)
				<-time.After(time.Second)
			}
			require.NoError(t, s.responsiveness.taintedErr(), name)
			require.NoError(t, s.Close())
		}
	})
}
