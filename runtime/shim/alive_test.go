package shim

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// checked is a stream whose engine answers from a list, its last for good.
type checked struct {
	net.Conn
	asked   *[]time.Duration // when, since began
	began   time.Time
	answers []error
}

func (c *checked) Running(context.Context) error {
	err := c.answers[min(len(*c.asked), len(c.answers)-1)]
	*c.asked = append(*c.asked, time.Since(c.began))
	return err
}

// silent is a session with a container whose peer greets and then says no more
// than the script; its stream never ends by itself. When it is given up, the
// container is not there for a second one.
func silent(t *testing.T, script func(p *peer), answers ...error) (*Session, *[]time.Duration) {
	asked, dialled := &[]time.Duration{}, false
	s := newSession("c", Options{Secret: secret, Running: runs, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
		if dialled {
			return nil, 0, runtime.ErrNotRunning
		}
		dialled = true
		ours, theirs := net.Pipe()
		go func() { // ends when the session does
			p := &peer{t: t, conn: theirs}
			p.welcome("a")
			script(p)
			for {
				if _, more := p.next(); !more {
					return
				}
			}
		}()
		return &checked{Conn: ours, asked: asked, began: time.Now(), answers: answers}, Version, nil
	}})
	t.Cleanup(func() { s.Close() })
	return s, asked
}

// A container that is over without an end of its stream is noticed by what the
// engine says of it, and not before the engine says so.
func TestStreamOutlivesContainer(t *testing.T) {
	t.Parallel()
	for _, gone := range []error{runtime.ErrNotRunning, runtime.ErrNotFound} {
		synctest.Test(t, func(t *testing.T) {
			s, asked := silent(t, func(*peer) {}, nil, runtime.ErrUnavailable, gone)
			_, err := s.Exec(t.Context(), runtime.Command{Key: "key", Args: []string{"hello"}, Timeout: time.Hour})
			require.ErrorIs(t, err, runtime.ErrLost)
			require.Equal(t, []time.Duration{5 * time.Second, 15 * time.Second, 35 * time.Second}, *asked)
		})
	}
}

// The engine is asked only while a request is unanswered, and rarely.
func TestChecksAreRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, asked := silent(t, func(p *peer) { answerRun(p, 0) }, nil)
		_, err := s.Exec(t.Context(), hello)
		require.NoError(t, err)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Empty(t, *asked, "nothing is waited for")

		_, err = s.Exec(t.Context(), runtime.Command{Key: "key", Args: []string{"hello"}, Timeout: 270 * time.Second})
		require.Error(t, err)
		require.Len(t, *asked, 7, "after 5, 15, 35 and 75 s, and then every minute")
		<-time.After(time.Hour)
		synctest.Wait()
		require.Len(t, *asked, 7, "nothing is waited for any more")
	})
}
