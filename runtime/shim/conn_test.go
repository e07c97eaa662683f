package shim

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// channels are both ends of a stream after the handshake.
func channels(t testing.TB) (server, program *Channel, ours, theirs net.Conn) {
	t.Helper()
	key := Key(secret, "c")
	ours, theirs = net.Pipe()
	done := make(chan *Channel, 1)
	go func() { // ends with the handshake
		c, _ := Accept(theirs, key, Welcome{Boot: "a"})
		done <- c
	}()
	server, _, err := Call(ours, key, Version)
	require.NoError(t, err)
	program = <-done
	require.NotNil(t, program)
	return server, program, ours, theirs
}

// conns are both ends of a connection, each with its handler.
func conns(t *testing.T, serves, programServes Handler) (server, program *Conn) {
	t.Helper()
	s, p, ours, theirs := channels(t)
	server, program = NewConn(ours, s, serves, nil), NewConn(theirs, p, programServes, nil)
	go server.Run() // both end with the connection
	go program.Run()
	t.Cleanup(func() { server.Close() })
	return server, program
}

// echo answers with the request's own key.
func echo(in *Incoming) error {
	go func() { _ = in.Answer(Answer{Fault: &Fault{Code: CodeFailed, Detail: in.Request.Key}}) }()
	return nil
}

// Each end asks and is asked, at once, and every answer is that of its request.
func TestBothEndsAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, program := conns(t, echo, echo)
		var all sync.WaitGroup
		for _, end := range []*Conn{server, program} {
			for n := range 20 {
				all.Go(func() {
					key := strings.Repeat(end.self.name, n+1)
					out, err := end.Ask(Request{Op: OpOutcome, Key: key})
					require.NoError(t, err)
					require.Equal(t, end.self.first%2, out.id%2)
					ev := <-out.events
					require.Equal(t, key, ev.answer.Fault.Detail)
				})
			}
		}
		all.Wait()
		for _, end := range []*Conn{server, program} {
			require.Empty(t, end.open)
			require.Zero(t, end.asking)
			require.Zero(t, end.serving)
		}
	})
}

// An end that serves nothing says so, and goes on.
func TestUnknownRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, program := conns(t, nil, nil)
		require.NoError(t, program.Tell(Request{Op: "news"}))
		for range 3 * Server.requests {
			out, err := program.Ask(Request{Op: Op(strings.Repeat("x", 10_000))})
			require.NoError(t, err)
			ev := <-out.events
			require.Equal(t, CodeUnknown, ev.answer.Fault.Code)
			require.Less(t, len(ev.answer.Fault.Detail), 200)
		}
	})
}

// Both ends learn what both can. A name that one does not know is ignored, and
// nobody between them can take one away.
func TestFeatures(t *testing.T) {
	t.Parallel()
	server, program := conns(t, nil, nil)
	require.True(t, server.Has(FeatureFiles))
	require.True(t, program.Has(FeatureFiles))
	require.False(t, server.Has("telepathy"))
	require.Equal(t, []string{FeatureFiles}, common([]string{"telepathy", FeatureFiles, FeatureFiles}))
	require.Empty(t, common([]string{"telepathy"}))

	ours, between := net.Pipe()
	onward, theirs := net.Pipe()
	go func() { // ends with the handshake
		f, _ := ReadFrame(between, MaxHello)
		_ = WriteFrame(onward, f.Kind, jsonBody(bytes.ReplaceAll(f.Body, []byte(FeatureFiles), []byte("nosuch"))))
		_, _ = io.Copy(between, onward)
	}()
	go func() { // ends with the handshake
		_, _ = Accept(theirs, Key(secret, "c"), Welcome{Boot: "a"})
		theirs.Close()
	}()
	_, _, err := Call(ours, Key(secret, "c"), Version)
	require.ErrorIs(t, err, runtime.ErrDoomed)
	ours.Close()
}

// jsonBody is a message that is encoded already.
type jsonBody []byte

func (b jsonBody) MarshalJSON() ([]byte, error) { return b, nil }

// A peer that does not read loses the connection, and only after the time that
// its end allows.
func TestPeerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	for _, program := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, p, ours, theirs := channels(t)
			end, limit := NewConn(ours, s, nil, nil), 10*time.Second
			if program {
				end, limit = NewConn(theirs, p, nil, nil), 30*time.Second
			}
			begun := time.Now()
			_, err := end.Ask(Request{Op: OpOutcome})
			require.ErrorIs(t, err, errLinkLost)
			require.Equal(t, limit, time.Since(begun))
			require.ErrorContains(t, end.Err(), "does not read")
		})
	}
}

// More requests than the peer takes are not sent, and are told as what may be
// tried again; those that nobody waits for count until they are answered.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var held []*Incoming
		server, _ := conns(t, nil, func(in *Incoming) error { held = append(held, in); return nil })
		for range Program.requests {
			out, err := server.Ask(Request{Op: OpOutcome})
			require.NoError(t, err)
			out.Forget()
		}
		_, err := server.Ask(Request{Op: OpOutcome})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		synctest.Wait()
		require.NoError(t, held[7].Answer(Answer{}))
		require.Error(t, held[7].Answer(Answer{}), "a second time")
		synctest.Wait()
		_, err = server.Ask(Request{Op: OpOutcome})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, server.Err())
	})
}

// So are more streams, and a request that was answered gives them back.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var held []*Incoming
		server, program := conns(t, nil, func(in *Incoming) error { held = append(held, in); return nil })
		for range Program.streams / maxStreams {
			_, err := server.Ask(Request{Op: OpTar, Streams: maxStreams})
			require.NoError(t, err)
		}
		_, err := server.Ask(Request{Op: OpTar, Streams: 1})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		synctest.Wait()
		require.NoError(t, held[3].Answer(Answer{}))
		synctest.Wait()
		for range maxStreams {
			_, err = server.Ask(Request{Op: OpTar, Streams: 1})
			require.NoError(t, err)
		}
		synctest.Wait()
		for _, in := range held {
			_ = in.Answer(Answer{}) // one is answered
		}
		synctest.Wait()
		require.NoError(t, server.Err())
		require.Zero(t, program.serving)
		require.Zero(t, server.asking)
	})
}

// The end of a connection ends its requests and streams at both ends.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := make(chan *Incoming, 1)
		server, program := conns(t, nil, func(in *Incoming) error { began <- in; return nil })
		out, err := server.Ask(Request{Op: OpTar, Streams: 1})
		require.NoError(t, err)
		in := <-began
		read := make(chan error, 2)
		for _, s := range []*Stream{out.Stream(0), in.Stream(0)} {
			go func() { // ends with the connection
				_, err := s.Read(make([]byte, 1))
				read <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, program.Close())
		<-server.Lost()
		<-in.Lost()
		require.ErrorIs(t, <-read, errLinkLost)
		require.ErrorIs(t, <-read, errLinkLost)
		_, err = out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, errLinkLost)
		_, err = server.Ask(Request{Op: OpTar})
		require.ErrorIs(t, err, errLinkLost)
		require.Error(t, server.Tell(Request{Op: OpCancel}))
		require.Error(t, in.Answer(Answer{}))
		out.Forget()
	})
}

// An error of the handler ends the connection.
func TestHandlerFails(t *testing.T) {
	t.Parallel()
	nonsense := errors.New("nonsense")
	synctest.Test(t, func(t *testing.T) {
		server, program := conns(t, nil, func(*Incoming) error { return nonsense })
		out, err := server.Ask(Request{Op: OpRun})
		require.NoError(t, err)
		<-server.Lost()
		require.ErrorIs(t, program.Err(), nonsense)
		select {
		case <-out.events:
			t.Error("an answer")
		default:
		}
	})
}
