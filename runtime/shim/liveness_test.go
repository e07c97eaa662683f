package shim

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// checkedStream is a stream whose engine answers from a list and repeats the
// last answer.
type checkedStream struct {
	net.Conn
	checks  *[]time.Duration // when, since start
	start   time.Time
	answers []error
}

func (c *checkedStream) CheckRunning(context.Context) error {
	err := c.answers[min(len(*c.checks), len(c.answers)-1)]
	*c.checks = append(*c.checks, time.Since(c.start))
	return err
}

// silentSession returns a session with a container whose peer completes the
// handshake, plays the script and is then silent. Its stream never ends by
// itself. The container does not accept a second connection.
func silentSession(t *testing.T, script func(p *peer), answers ...error) (*Session, *[]time.Duration) {
	checks, dialled := &[]time.Duration{}, false
	s := newSession("c", Options{Secret: secret, CheckRunning: alwaysRunning, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
		if dialled {
			return nil, 0, runtime.ErrNotRunning
		}
		dialled = true
		ours, theirs := net.Pipe()
		go func() { // ends when the session does
			p := &peer{t: t, conn: theirs}
			p.handshake("a")
			script(p)
			for {
				if _, more := p.nextRequest(); !more {
					return
				}
			}
		}()
		return &checkedStream{Conn: ours, checks: checks, start: time.Now(), answers: answers}, Version, nil
	}})
	t.Cleanup(func() { s.Close() })
	return s, checks
}

// A container that has ended without an end of its stream is detected by the
// engine's answer, and not before.
func TestStreamOutlivesContainer(t *testing.T) {
	t.Parallel()
	for _, gone := range []error{runtime.ErrNotRunning, runtime.ErrNotFound} {
		t.Run(fmt.Sprint("gone ", gone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, checks := silentSession(t, func(*peer) {}, nil, runtime.ErrUnavailable, gone)
				_, err := s.Exec(t.Context(), runtime.Command{RunID: "key", Args: []string{"hello"}, Timeout: time.Hour})
				require.ErrorIs(t, err, runtime.ErrContainerExited)
				require.Equal(t, []time.Duration{5 * time.Second, 15 * time.Second, 35 * time.Second}, *checks)
			})
		})
	}
}

// The engine is queried only while a request is unanswered, and rarely.
func TestLivenessCheckInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, checks := silentSession(t, func(p *peer) { respondToRun(p, 0) }, nil)
		_, err := s.Exec(t.Context(), helloCommand)
		require.NoError(t, err)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Empty(t, *checks, "no request is open")

		_, err = s.Exec(t.Context(), runtime.Command{RunID: "key", Args: []string{"hello"}, Timeout: 270 * time.Second})
		require.Error(t, err)
		require.Len(t, *checks, 7, "after 5, 15, 35 and 75 s, and then every minute")
		<-time.After(time.Hour)
		synctest.Wait()
		require.Len(t, *checks, 7, "no request is open any more")
	})
}
