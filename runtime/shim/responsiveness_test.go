package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// sessionWithTimeout returns a session with a container that has a minute to
// answer. The script plays each connection; engine returns the engine's answer.
func sessionWithTimeout(t *testing.T, engine *error, script func(p *peer)) *Session {
	t.Helper()
	s := newSession("c", Options{
		Secret: secret, UnresponsiveTimeout: time.Minute,
		CheckRunning: func(context.Context, string) error { return *engine },
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			if *engine != nil {
				return nil, 0, *engine
			}
			ours, theirs := net.Pipe()
			go func() { // ends with the script
				defer theirs.Close()
				script(&peer{t: t, conn: theirs})
			}()
			return ours, Version, nil
		},
	})
	t.Cleanup(func() { s.Close() })
	return s
}

// retryRestart calls Restart every second until it returns another error than
// ErrUnavailable. It returns how long that took and the last error.
func retryRestart(t *testing.T, s *Session, maxWait time.Duration) (time.Duration, error) {
	t.Helper()
	start := time.Now()
	for {
		err := s.Restart(t.Context(), 1)
		if !errors.Is(err, runtime.ErrUnavailable) || time.Since(start) > maxWait {
			return time.Since(start), err
		}
		require.NoError(t, flow.Sleep(t.Context(), time.Second))
	}
}

// A container that is running and does not answer is tainted after the timeout,
// whatever part of a session fails.
func TestUnresponsiveContainerIsTainted(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(p *peer){
		"the bridge ends":            func(*peer) {},
		"the handshake stalls":       func(p *peer) { _, _ = io.Copy(io.Discard, p.conn) },
		"each request is lost":       func(p *peer) { p.handshake("a"); p.nextRequest() },
		"each response is truncated": func(p *peer) { p.handshake("a"); p.nextRequest(); _, _ = p.conn.Write([]byte{0, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var engine error
				s := sessionWithTimeout(t, &engine, script)
				took, err := retryRestart(t, s, 3*time.Minute)
				require.ErrorIs(t, err, runtime.ErrTainted)
				require.NotErrorIs(t, err, runtime.ErrUnavailable)
				require.GreaterOrEqual(t, took, time.Minute)
				require.LessOrEqual(t, took, time.Minute+openTimeout+time.Second)

				_, err = s.Exec(t.Context(), helloCommand)
				require.ErrorIs(t, err, runtime.ErrTainted, "every later call")
				require.NoError(t, s.Close())
			})
		})
	}
}

// Until then the error is both ErrUnavailable, so that callers retry, and
// ErrUnresponsive, which identifies the container as the cause.
func TestUnresponsiveIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := sessionWithTimeout(t, &engine, func(*peer) {})
		err := s.Open(t.Context())
		require.ErrorIs(t, err, runtime.ErrUnresponsive)
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.NotErrorIs(t, err, runtime.ErrTainted)
		engine = runtime.ErrUnavailable
		err = s.Open(t.Context())
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.NotErrorIs(t, err, runtime.ErrUnresponsive)
		require.NoError(t, s.Close())
	})
}

// Time while the engine is unavailable does not count against the container.
func TestEngineUnavailableDoesNotTaint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		s := sessionWithTimeout(t, &engine, func(*peer) {})
		for range 3 {
			took, err := retryRestart(t, s, 50*time.Second)
			require.ErrorIs(t, err, runtime.ErrUnresponsive)
			require.Less(t, took, time.Minute)
			engine = runtime.ErrUnavailable
			took, err = retryRestart(t, s, time.Hour)
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			require.Greater(t, took, time.Hour)
			engine = nil
		}
		require.NoError(t, s.Close())
	})
}

// A response resets the timeout; a session that opens and answers nothing does
// not.
func TestResponseResetsUnresponsiveTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		answers := false
		s := sessionWithTimeout(t, &engine, func(p *peer) {
			p.handshake("a")
			r, ok := p.nextRequest()
			if ok && answers {
				p.send(KindResponse, Response{ID: r.ID})
				p.nextRequest()
			}
		})
		for range 3 {
			answers = false
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			require.ErrorIs(t, s.Restart(ctx, 1), context.DeadlineExceeded)
			cancel()
			answers = true
			require.NoError(t, s.Restart(t.Context(), 1))
			s.Disconnect()
		}
		require.NoError(t, s.Close())
	})
}

// A request that was lost long ago and never repeated does not count against a
// container that answers the next request.
func TestOldLostRequestDoesNotTaint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		answers := false
		s := sessionWithTimeout(t, &engine, func(p *peer) {
			p.handshake("a")
			for r, ok := p.nextRequest(); ok && answers; r, ok = p.nextRequest() {
				p.send(KindResponse, Response{ID: r.ID})
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Restart(ctx, 1), context.DeadlineExceeded)
		require.NoError(t, flow.Sleep(t.Context(), time.Hour))
		answers = true
		require.NoError(t, s.Restart(t.Context(), 1))
		require.NoError(t, s.Close())
	})
}

// A session that could not be opened immediately, as after a start, does not
// count as an unanswered request once it is open.
func TestSlowStartDoesNotTaint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var engine error
		listens := false
		s := sessionWithTimeout(t, &engine, func(p *peer) {
			if listens {
				p.handshake("a")
				p.nextRequest()
			}
		})
		require.ErrorIs(t, s.Open(t.Context()), runtime.ErrUnresponsive)
		listens = true
		require.NoError(t, s.Open(t.Context()))
		require.NoError(t, flow.Sleep(t.Context(), time.Hour))
		s.Disconnect()
		listens = false
		require.ErrorIs(t, s.Open(t.Context()), runtime.ErrUnresponsive)
		require.NoError(t, s.Close())
	})
}

// A server that may no longer change anything stops in the middle of a call.
func TestMayChangeCheckedOnRetry(t *testing.T) {
	t.Parallel()
	denied := errors.New("lease lost")
	for name, call := range map[string]func(context.Context, *Session) error{
		"restart": func(ctx context.Context, s *Session) error { return s.Restart(ctx, 1) },
		"exec":    func(ctx context.Context, s *Session) error { _, err := s.Exec(ctx, helloCommand); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var engine error
				allowed, requests := true, 0
				s := sessionWithTimeout(t, &engine, func(p *peer) {
					p.handshake("a")
					if _, ok := p.nextRequest(); ok {
						requests++
						allowed = false
					}
				})
				s.mayChange = func() error {
					if !allowed {
						return denied
					}
					return nil
				}
				require.ErrorIs(t, call(t.Context(), s), denied)
				require.Equal(t, 1, requests)
				require.NoError(t, s.Close())
			})
		})
	}
}

// A request that timed out has an error, even if another request is answered
// concurrently.
func TestUnansweredRequestAlwaysHasAnError(t *testing.T) {
	t.Parallel()
	r := newResponsiveness(time.Nanosecond)
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() { // ends when stopped is set
		defer close(done)
		for !stopped.Load() {
			r.recordResponse()
		}
	}()
	defer func() { stopped.Store(true); <-done }()
	for range 100_000 {
		r.mu.Lock()
		r.tainted = nil
		r.mu.Unlock()
		require.ErrorIs(t, r.recordUnanswered(time.Now().Add(-time.Hour)), runtime.ErrTainted)
	}
}
