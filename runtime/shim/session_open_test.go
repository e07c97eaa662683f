package shim

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// The stream to a program whose main process could not be started stays open until
// the program has our proof and closes it: an engine drops what is on its way in a
// stream that is closed.
func TestStartErrorAwaitsTheEnd(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"the program closes it": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, closed := time.Now(), make(chan time.Duration, 1)
				s := scriptedSession(t, func(p *peer) {
					p.handshakeWith(HandshakeReply{BootID: "a", Main: MainFailed, Error: NewWireError(&runtime.StartError{Detail: "none"})})
					require.NotNil(t, p.channel, "it has the proof")
					if ends {
						<-time.After(time.Second)
						require.NoError(t, p.conn.SetReadDeadline(time.Now()))
					}
					_, err := p.conn.Read(make([]byte, 1))
					require.Equal(t, ends, errors.Is(err, os.ErrDeadlineExceeded), "it is open: %v", err)
					closed <- time.Since(start)
				})
				_, failed := errors.AsType[*runtime.StartError](s.Open(t.Context()))
				require.True(t, failed)
				require.Equal(t, map[bool]time.Duration{true: time.Second, false: endTimeout}[ends], <-closed)
			})
		})
	}
}

// A call whose context has ended requests nothing, also if the answer would be there
// at once.
func TestCallOfEndedContext(t *testing.T) {
	t.Parallel()
	requested := make(chan bool, 1)
	s := scriptedSession(t, func(p *peer) {
		p.handshake("a")
		_, ok := p.nextRequest()
		requested <- ok
	})
	require.NoError(t, s.Open(t.Context()))
	gone := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := s.DialPort(ctx, 80, 1)
	require.ErrorIs(t, err, gone)
	require.NoError(t, s.Close())
	require.False(t, <-requested)
}

// No connection is opened for a call whose context has ended while it waited for its
// turn.
func TestNothingIsOpenedForEndedContext(t *testing.T) {
	t.Parallel()
	s := newSession("c", Options{Secret: secret, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
		require.Fail(t, "it is opened")
		return nil, 0, runtime.ErrUnavailable
	}})
	gone := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for range 50 { // either may win
		require.ErrorIs(t, s.Open(ctx), gone)
	}
}

// The reason why a main process could not be started is cut: it becomes a part of
// events and logs.
func TestStartErrorIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSession(t, func(p *peer) {
			long := &runtime.StartError{Detail: strings.Repeat("x", maxHandshakeReply-4096)}
			p.handshakeWith(HandshakeReply{BootID: "a", Main: MainFailed, Error: NewWireError(long)})
		})
		failed, ok := errors.AsType[*runtime.StartError](s.Open(t.Context()))
		require.True(t, ok)
		require.Len(t, failed.Detail, maxErrorText)
	})
}

// A program that keeps its stream open after a start that failed holds
// up neither the caller after its context has ended, nor another container.
func TestEndIsAwaitedOfOneContainer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stalled := scriptedSession(t, func(p *peer) {
			p.handshakeWith(HandshakeReply{BootID: "a", Main: MainFailed, Error: NewWireError(&runtime.StartError{Detail: "none"})})
			_, _ = p.conn.Read(make([]byte, 1)) // until the server closes it
		})
		other := scriptedSession(t, func(p *peer) {
			p.handshake("b")
			p.nextRequest()
		})
		left := errors.New("the client left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, left)
		defer cancel()
		start, done := time.Now(), make(chan error, 1)
		go func() { done <- stalled.Open(ctx) }()
		synctest.Wait()
		require.NoError(t, other.Open(t.Context()))
		require.Zero(t, time.Since(start))
		require.ErrorIs(t, <-done, left)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, other.Close())
	})
}
