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

// runs is Options.Running of a container that runs.
func runs(context.Context, string) error { return nil }

// peer is the program's end of one connection, played by a test.
type peer struct {
	t       *testing.T
	conn    net.Conn
	channel *Channel // after welcome
}

// welcome does the program's part of the greeting.
func (p *peer) welcome(boot string) { p.accept(Welcome{Boot: boot, Main: MainRunning}) }

func (p *peer) accept(w Welcome) {
	p.channel, _ = Accept(p.conn, Key(secret, "c"), w) // the client may have gone
}

func (p *peer) send(kind Kind, message any) {
	if p.channel != nil {
		_ = p.channel.Write(kind, message)
	}
}

// next is the next request; false when the client has gone.
func (p *peer) next() (Request, bool) {
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

// scripted is a session whose first connection is played by the first script,
// and so on. Without a script the container is gone.
func scripted(t *testing.T, scripts ...func(p *peer)) *Session {
	n := 0
	s := newSession("c", Options{Secret: secret, Running: runs, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
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

// answerRun answers one run with an exit code.
func answerRun(p *peer, code int) {
	if r, ok := p.next(); ok {
		p.send(KindAnswer, Answer{ID: r.ID, Result: &runtime.Result{ExitCode: code}})
	}
}

var hello = runtime.Command{Key: "key", Args: []string{"hello"}}

func TestExec(t *testing.T) {
	t.Parallel()
	lose := func(p *peer) { p.welcome("a"); p.next() }
	cases := map[string]struct {
		scripts []func(p *peer)
		code    int
		err     error
	}{
		"answered": {scripts: []func(p *peer){func(p *peer) { p.welcome("a"); answerRun(p, 3) }}, code: 3},
		"lost once, asked again": {scripts: []func(p *peer){lose,
			func(p *peer) { p.welcome("a"); answerRun(p, 5) }}, code: 5},
		"lost while greeting": {scripts: []func(p *peer){lose, func(*peer) {}, func(*peer) {},
			func(p *peer) { p.welcome("a"); answerRun(p, 6) }}, code: 6},
		"another boot":        {scripts: []func(p *peer){lose, func(p *peer) { p.welcome("b"); p.next() }}, err: runtime.ErrLost},
		"gone after sending":  {scripts: []func(p *peer){lose}, err: runtime.ErrLost},
		"gone before sending": {err: runtime.ErrNotRunning},
		"nonsense instead of a welcome": {scripts: []func(p *peer){func(p *peer) {
			_, _ = ReadFrame(p.conn, MaxHello)
			_, _ = p.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
		}}, err: runtime.ErrDoomed},
		"another version": {scripts: []func(p *peer){func(p *peer) {
			_, _ = ReadFrame(p.conn, MaxHello)
			_ = WriteFrame(p.conn, KindWelcome, Welcome{Version: Version + 1, Boot: "a"})
			_ = WriteFrame(p.conn, KindProof, Proof{})
		}}, err: runtime.ErrDoomed},
		"an answer without a result": {scripts: []func(p *peer){func(p *peer) {
			p.welcome("a")
			r, _ := p.next()
			p.send(KindAnswer, Answer{ID: r.ID})
		}}, err: runtime.ErrDoomed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := scripted(t, c.scripts...)
				defer s.Close()
				result, err := s.Exec(t.Context(), hello)
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

// A program that never answers does not hold its caller for ever.
func TestExecIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t, func(p *peer) {
			p.welcome("a")
			for ok := true; ok; {
				_, ok = p.next()
			}
		})
		defer s.Close()
		began := time.Now()
		cmd := hello
		cmd.Timeout, cmd.Grace = time.Minute, time.Second
		_, err := s.Exec(t.Context(), cmd)
		require.ErrorIs(t, err, runtime.ErrDoomed)
		require.Equal(t, time.Minute+time.Second+KillBound+margin, time.Since(began))
	})
}

// A program that does not finish its look for changes is not out of control:
// nothing is known, whoever says so.
func TestUnfinishedLook(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"the program says so": true, "it says nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := scripted(t, func(p *peer) {
					p.welcome("a")
					r, _ := p.next()
					if answers {
						<-time.After(LookTime)
						p.send(KindAnswer, Answer{ID: r.ID, Time: time.Now(), Fault: NewFault(runtime.ErrUnfinished)})
					}
					p.next()
				})
				defer s.Close()
				at, err := s.Changed(t.Context(), []string{"/data"})
				require.ErrorIs(t, err, runtime.ErrUnfinished)
				require.NotErrorIs(t, err, runtime.ErrDoomed)
				require.True(t, at.IsZero())
			})
		})
	}
}

// A command that waits for its turn has its whole time from when it starts.
func TestQueuedExec(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t, func(p *peer) {
			p.welcome("a")
			r, _ := p.next()
			p.send(KindNote, Note{ID: r.ID, Turn: TurnQueued})
			<-time.After(4 * time.Minute)
			p.send(KindNote, Note{ID: r.ID, Turn: TurnStarted})
			<-time.After(30 * time.Second)
			p.send(KindAnswer, Answer{ID: r.ID, Result: &runtime.Result{}})
		})
		defer s.Close()
		result, err := s.Exec(t.Context(), hello)
		require.NoError(t, err)
		require.True(t, result.OK())
	})
}

var errEnough = errors.New("enough")

// A cancelled Exec tells the program, and waits until the command is over.
func TestCancelledExec(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"ended": nil, "doomed": runtime.ErrDoomed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				over := false
				s := scripted(t, func(p *peer) {
					p.welcome("a")
					r, _ := p.next()
					c, _ := p.next()
					require.Equal(t, Request{Op: OpCancel, Key: "key"}, c)
					<-time.After(time.Second)
					over = true
					answer := Answer{ID: r.ID, Result: &runtime.Result{ExitCode: 143}}
					if fault != nil {
						answer = Answer{ID: r.ID, Fault: NewFault(fault)}
					}
					p.send(KindAnswer, answer)
				})
				defer s.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errEnough) })
				_, err := s.Exec(ctx, hello)
				require.ErrorIs(t, err, errEnough)
				require.True(t, over)
				if fault != nil {
					require.ErrorIs(t, err, fault)
				}
			})
		})
	}
}

// A restart that is lost in the middle is asked for again.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t, func(p *peer) { p.welcome("a"); p.next() }, func(p *peer) {
			p.welcome("a")
			r, _ := p.next()
			require.Equal(t, OpRestart, r.Op)
			p.send(KindAnswer, Answer{ID: r.ID})
			p.next()
		})
		require.NoError(t, s.Restart(t.Context(), 1))
		require.NoError(t, s.Close())
		require.ErrorIs(t, s.Restart(t.Context(), 1), runtime.ErrUnavailable, "closed")
	})
}

// Why a main process did not start is what opening a session says.
func TestOpenTellsWhyMainFailed(t *testing.T) {
	t.Parallel()
	want := &runtime.StartError{Reason: runtime.StartNoBinary, Detail: "none"}
	s := scripted(t, func(p *peer) {
		p.accept(Welcome{Boot: "a", Main: MainFailed, Fault: NewFault(want)})
	})
	var got *runtime.StartError
	require.ErrorAs(t, s.Open(t.Context()), &got)
	require.Equal(t, want, got)
}
