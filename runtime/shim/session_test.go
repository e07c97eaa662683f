package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

var secret = []byte("secret")

// alwaysRunning is an Options.CheckRunning for a container that is running.
func alwaysRunning(context.Context, string) error { return nil }

// peer is the program's end of one connection, played by a test.
type peer struct {
	t       *testing.T
	conn    net.Conn
	channel *Channel // after the handshake
}

// handshake runs the program's part of the handshake.
func (p *peer) handshake(boot string) {
	p.handshakeWith(HandshakeReply{BootID: boot, Main: MainRunning})
}

func (p *peer) handshakeWith(w HandshakeReply) {
	p.channel, _ = ProgramHandshake(p.conn, DeriveKey(secret, "c"), w) // the client may have disconnected
}

func (p *peer) send(kind Kind, message any) {
	if p.channel != nil {
		_ = p.channel.Write(kind, message)
	}
}

// nextRequest returns the next request, or false if the client has
// disconnected.
func (p *peer) nextRequest() (Request, bool) {
	if p.channel == nil {
		return Request{}, false
	}
	f, err := p.channel.Read()
	if err != nil {
		return Request{}, false
	}
	r, err := Decode[Request](f, KindRequest)
	require.NoError(p.t, err)
	return r, true
}

// scriptedSession returns a session whose n-th connection is played by the n-th
// script. After the last script the container is destroyed.
func scriptedSession(t *testing.T, scripts ...func(p *peer)) *Session {
	n := 0
	s := newSession("c", Options{Secret: secret, CheckRunning: alwaysRunning, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
		if n == len(scripts) {
			return nil, 0, runtime.ErrNotRunning
		}
		ours, theirs := net.Pipe()
		script := scripts[n]
		n++
		go func() { // ends with the script
			defer theirs.Close()
			script(&peer{t: t, conn: theirs})
		}()
		return ours, Version, nil
	}})
	t.Cleanup(func() { s.Close() })
	return s
}

// respondToRun answers one run with an exit code.
func respondToRun(p *peer, code int) {
	if r, ok := p.nextRequest(); ok {
		p.send(KindResponse, Response{ID: r.ID, Result: &runtime.Result{ExitCode: code}})
	}
}

var helloCommand = runtime.Command{RunID: "key", Args: []string{"hello"}}

func TestExecAcrossConnections(t *testing.T) {
	t.Parallel()
	dropConn := func(p *peer) { p.handshake("a"); p.nextRequest() }
	cases := map[string]struct {
		scripts []func(p *peer)
		code    int
		err     error
	}{
		"answered": {scripts: []func(p *peer){func(p *peer) { p.handshake("a"); respondToRun(p, 3) }}, code: 3},
		"lost once, requested again": {scripts: []func(p *peer){dropConn,
			func(p *peer) { p.handshake("a"); respondToRun(p, 5) }}, code: 5},
		"lost during the handshake": {scripts: []func(p *peer){dropConn, func(*peer) {}, func(*peer) {},
			func(p *peer) { p.handshake("a"); respondToRun(p, 6) }}, code: 6},
		"another boot":             {scripts: []func(p *peer){dropConn, func(p *peer) { p.handshake("b"); p.nextRequest() }}, err: runtime.ErrContainerExited},
		"destroyed after sending":  {scripts: []func(p *peer){dropConn}, err: runtime.ErrContainerExited},
		"destroyed before sending": {err: runtime.ErrNotRunning},
		"malformed handshake reply": {scripts: []func(p *peer){func(p *peer) {
			_, _ = ReadFrame(p.conn, MaxHandshake)
			_, _ = p.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
		}}, err: runtime.ErrTainted},
		"another version": {scripts: []func(p *peer){func(p *peer) {
			_, _ = ReadFrame(p.conn, MaxHandshake)
			_ = WriteFrame(p.conn, KindHandshakeReply, HandshakeReply{Version: Version + 1, BootID: "a"})
			_ = WriteFrame(p.conn, KindProof, Proof{})
		}}, err: runtime.ErrTainted},
		"response without result": {scripts: []func(p *peer){func(p *peer) {
			p.handshake("a")
			r, _ := p.nextRequest()
			p.send(KindResponse, Response{ID: r.ID})
		}}, err: runtime.ErrTainted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := scriptedSession(t, c.scripts...)
				defer s.Close()
				result, err := s.Exec(t.Context(), helloCommand)
				if c.err != nil {
					require.ErrorIs(t, err, c.err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.code, result.ExitCode)
			})
		})
	}
}

// A program that never answers does not block its caller indefinitely.
func TestExecTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSession(t, func(p *peer) {
			p.handshake("a")
			for ok := true; ok; {
				_, ok = p.nextRequest()
			}
		})
		defer s.Close()
		startedAt := time.Now()
		cmd := helloCommand
		cmd.Timeout, cmd.Grace = time.Minute, new(time.Second)
		_, err := s.Exec(t.Context(), cmd)
		require.ErrorIs(t, err, runtime.ErrTainted)
		require.Equal(t, time.Minute+time.Second+KillTimeout+replyMargin, time.Since(startedAt))
	})
}

// A container is not tainted if its program does not finish a scan, whether the
// program reports that or does not answer: the result is unknown.
func TestScanIncomplete(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"the program reports it": true, "the program is silent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := scriptedSession(t, func(p *peer) {
					p.handshake("a")
					r, _ := p.nextRequest()
					if answers {
						<-time.After(ScanTimeout)
						p.send(KindResponse, Response{ID: r.ID, Time: time.Now(), Error: NewWireError(runtime.ErrScanIncomplete)})
					}
					p.nextRequest()
				})
				defer s.Close()
				at, err := s.LastModified(t.Context(), []string{"/data"})
				require.ErrorIs(t, err, runtime.ErrScanIncomplete)
				require.NotErrorIs(t, err, runtime.ErrTainted)
				require.True(t, at.IsZero())
			})
		})
	}
}

// The timeout of a queued command starts when the command starts.
func TestQueuedExecTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSession(t, func(p *peer) {
			p.handshake("a")
			r, _ := p.nextRequest()
			p.send(KindProgress, Progress{ID: r.ID, State: ProgressQueued})
			<-time.After(4 * time.Minute)
			p.send(KindProgress, Progress{ID: r.ID, State: ProgressStarted})
			<-time.After(30 * time.Second)
			p.send(KindResponse, Response{ID: r.ID, Result: &runtime.Result{}})
		})
		defer s.Close()
		result, err := s.Exec(t.Context(), helloCommand)
		require.NoError(t, err)
		require.True(t, result.OK())
	})
}

var errCancelled = errors.New("canceled by the test")

// A cancelled Exec notifies the program and waits until the command has ended.
func TestCancelledExec(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"ended": nil, "tainted": runtime.ErrTainted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				finished := false
				s := scriptedSession(t, func(p *peer) {
					p.handshake("a")
					r, _ := p.nextRequest()
					c, _ := p.nextRequest()
					require.Equal(t, Request{Op: OpCancel, RunID: "key"}, c)
					<-time.After(time.Second)
					finished = true
					response := Response{ID: r.ID, Result: &runtime.Result{ExitCode: 143}}
					if failure != nil {
						response = Response{ID: r.ID, Error: NewWireError(failure)}
					}
					p.send(KindResponse, response)
				})
				defer s.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errCancelled) })
				_, err := s.Exec(ctx, helloCommand)
				require.ErrorIs(t, err, errCancelled)
				require.True(t, finished)
				if failure != nil {
					require.ErrorIs(t, err, failure)
				}
			})
		})
	}
}

// A canceled Exec whose command does not confirm its end reports that.
func TestCancelledExecUnconfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSession(t, func(p *peer) {
			p.handshake("a")
			p.nextRequest()
			p.nextRequest() // then the connection is lost, and the engine does not answer
		})
		defer s.Close()
		dial := s.dial
		s.dial = func(ctx context.Context) (io.ReadWriteCloser, int, error) {
			c, version, err := dial(ctx)
			if err != nil {
				err = runtime.ErrUnavailable
			}
			return c, version, err
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errCancelled) })
		_, err := s.Exec(ctx, helloCommand)
		require.ErrorIs(t, err, errCancelled)
		require.ErrorIs(t, err, runtime.ErrUnavailable)
	})
}

// A server whose lease has expired does not end a command: the server that has
// taken over waits for its outcome.
func TestCancelledExecWithoutLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSession(t, func(p *peer) {
			p.handshake("a")
			p.nextRequest()
			r, ok := p.nextRequest()
			require.False(t, ok, "%v", r)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		expired := errors.New("the lease has expired")
		s.mayChange = func() error {
			if ctx.Err() != nil {
				return expired
			}
			return nil
		}
		time.AfterFunc(time.Second, func() { cancel(errCancelled) })
		start := time.Now()
		_, err := s.Exec(ctx, helloCommand)
		require.ErrorIs(t, err, errCancelled)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// A restart that is lost halfway is requested again.
func TestRestartRetriedAfterConnLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSession(t, func(p *peer) { p.handshake("a"); p.nextRequest() }, func(p *peer) {
			p.handshake("a")
			r, _ := p.nextRequest()
			require.Equal(t, OpRestart, r.Op)
			p.send(KindResponse, Response{ID: r.ID})
			p.nextRequest()
		})
		require.NoError(t, s.Restart(t.Context(), 1))
		require.NoError(t, s.Close())
		require.ErrorIs(t, s.Restart(t.Context(), 1), runtime.ErrUnavailable, "closed")
	})
}

// A call that changes nothing ends when its connection was lost and the engine is
// unavailable. One that changes the container waits for the engine: the change
// may have been made.
func TestCallsWhileEngineIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call func(context.Context, *Session) error
		want error
	}{
		"copy out": {func(ctx context.Context, s *Session) error { _, err := s.CopyOut(ctx, "/data"); return err }, runtime.ErrUnavailable},
		"scan":     {func(ctx context.Context, s *Session) error { _, err := s.LastModified(ctx, nil); return err }, runtime.ErrUnavailable},
		"wait result": {func(ctx context.Context, s *Session) error {
			_, err := s.WaitResult(ctx, runtime.Command{RunID: "k", Timeout: time.Hour})
			return err
		}, runtime.ErrUnavailable},
		"wipe": {func(ctx context.Context, s *Session) error { return s.Wipe(ctx, 1) }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := scriptedSession(t, func(p *peer) { p.handshake("a"); p.nextRequest() })
				defer s.Close()
				require.NoError(t, s.Open(t.Context()))
				s.dial = func(context.Context) (io.ReadWriteCloser, int, error) { return nil, 0, runtime.ErrUnavailable }
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				require.ErrorIs(t, test.call(ctx, s), test.want)
				require.LessOrEqual(t, time.Since(start), time.Minute)
			})
		})
	}
}

// Opening a session returns why the main process did not start.
func TestOpenReturnsStartError(t *testing.T) {
	t.Parallel()
	want := &runtime.StartError{Reason: runtime.StartBinaryNotFound, Detail: "none"}
	s := scriptedSession(t, func(p *peer) {
		p.handshakeWith(HandshakeReply{BootID: "a", Main: MainFailed, Error: NewWireError(want)})
	})
	var got *runtime.StartError
	require.ErrorAs(t, s.Open(t.Context()), &got)
	require.Equal(t, want, got)
}
