package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// newChannelConns returns both ends of a stream after the handshake.
func newChannelConns(t testing.TB) (server, program *Channel, ours, theirs net.Conn) {
	t.Helper()
	key := DeriveKey(secret, "c")
	ours, theirs = net.Pipe()
	done := make(chan *Channel, 1)
	go func() { // ends with the handshake
		c, _ := ProgramHandshake(theirs, key, HandshakeReply{BootID: "a"})
		done <- c
	}()
	server, _, err := ServerHandshake(ours, key, Version)
	require.NoError(t, err)
	program = <-done
	require.NotNil(t, program)
	return server, program, ours, theirs
}

// newConnPair returns both ends of a connection, each with its handler.
func newConnPair(t *testing.T, serves, programServes Handler) (server, program *Conn) {
	t.Helper()
	s, p, ours, theirs := newChannelConns(t)
	server, program = NewConn(ours, s, serves, nil), NewConn(theirs, p, programServes, nil)
	go server.Run() // both end with the connection
	go program.Run()
	t.Cleanup(func() { server.Close() })
	return server, program
}

// echo responds with the request's own run ID.
func echo(in *Incoming) error {
	go func() { _ = in.Respond(Response{Error: &WireError{Code: CodeFailed, Detail: in.Request.RunID}}) }()
	return nil
}

// Both ends send requests concurrently, and every response belongs to its
// request.
func TestRequestsInBothDirections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, program := newConnPair(t, echo, echo)
		var all sync.WaitGroup
		for _, end := range []*Conn{server, program} {
			for n := range 20 {
				all.Go(func() {
					key := strings.Repeat(end.local.name, n+1)
					out, err := end.Call(Request{Op: OpWaitResult, RunID: key})
					if !assert.NoError(t, err) {
						return
					}
					assert.Equal(t, end.local.firstID%2, out.id%2)
					ev := <-out.events
					assert.Equal(t, key, ev.response.Error.Detail)
				})
			}
		}
		all.Wait()
		for _, end := range []*Conn{server, program} {
			require.Empty(t, end.exchanges)
			require.Zero(t, end.outgoing)
			require.Zero(t, end.incoming)
		}
	})
}

// An end that serves no requests responds with an error and keeps the
// connection.
func TestUnknownRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, program := newConnPair(t, nil, nil)
		require.NoError(t, program.Notify(Request{Op: "news"}))
		for range 3 * Server.maxRequests {
			out, err := program.Call(Request{Op: Op(strings.Repeat("x", 10_000))})
			require.NoError(t, err)
			ev := <-out.events
			require.Equal(t, CodeUnsupported, ev.response.Error.Code)
			require.Less(t, len(ev.response.Error.Detail), 200)
		}
	})
}

// Both ends learn their common features. An unknown name is ignored, and no one
// between the ends can remove a feature.
func TestFeatureNegotiation(t *testing.T) {
	t.Parallel()
	server, program := newConnPair(t, nil, nil)
	require.True(t, server.Has(FeatureFiles))
	require.True(t, program.Has(FeatureFiles))
	require.False(t, server.Has("telepathy"))
	require.Equal(t, []string{FeatureFiles}, commonFeatures([]string{"telepathy", FeatureFiles, FeatureFiles}))
	require.Empty(t, commonFeatures([]string{"telepathy"}))

	ours, between := net.Pipe()
	onward, theirs := net.Pipe()
	go func() { // ends with the handshake
		f, _ := ReadFrame(between, MaxHandshake)
		_ = WriteFrame(onward, f.Kind, jsonBody(bytes.ReplaceAll(f.Body, []byte(FeatureFiles), []byte("nosuch"))))
		_, _ = io.Copy(between, onward)
	}()
	go func() { // ends with the handshake
		_, _ = ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a"})
		theirs.Close()
	}()
	_, _, err := ServerHandshake(ours, DeriveKey(secret, "c"), Version)
	require.ErrorIs(t, err, runtime.ErrTainted)
	ours.Close()
}

// jsonBody is a message that is already encoded.
type jsonBody []byte

func (b jsonBody) MarshalJSON() ([]byte, error) { return b, nil }

// A peer that does not read loses the connection, but only after the end's
// write timeout.
func TestWriteTimeout(t *testing.T) {
	t.Parallel()
	for _, program := range []bool{false, true} {
		t.Run(fmt.Sprint("program ", program), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p, ours, theirs := newChannelConns(t)
				end, limit := NewConn(ours, s, nil, nil), 10*time.Second
				if program {
					end, limit = NewConn(theirs, p, nil, nil), 30*time.Second
				}
				start := time.Now()
				_, err := end.Call(Request{Op: OpWaitResult})
				require.ErrorIs(t, err, errConnLost)
				require.Equal(t, limit, time.Since(start))
				require.ErrorContains(t, end.Err(), "does not read")
			})
		})
	}
}

// Requests beyond the peer's limit are not sent and return a retryable error.
// Abandoned requests count until they are answered.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var held []*Incoming
		server, _ := newConnPair(t, nil, func(in *Incoming) error { held = append(held, in); return nil })
		for range Program.maxRequests {
			out, err := server.Call(Request{Op: OpWaitResult})
			require.NoError(t, err)
			out.Abandon()
		}
		_, err := server.Call(Request{Op: OpWaitResult})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		synctest.Wait()
		require.NoError(t, held[7].Respond(Response{}))
		require.Error(t, held[7].Respond(Response{}), "second response")
		synctest.Wait()
		_, err = server.Call(Request{Op: OpWaitResult})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, server.Err())
	})
}

// The same holds for streams. An answered request frees its streams.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var held []*Incoming
		server, program := newConnPair(t, nil, func(in *Incoming) error { held = append(held, in); return nil })
		for range Program.maxStreams / maxStreamsPerRequest {
			_, err := server.Call(Request{Op: OpTar, Streams: maxStreamsPerRequest})
			require.NoError(t, err)
		}
		_, err := server.Call(Request{Op: OpTar, Streams: 1})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		synctest.Wait()
		require.NoError(t, held[3].Respond(Response{}))
		synctest.Wait()
		for range maxStreamsPerRequest {
			_, err = server.Call(Request{Op: OpTar, Streams: 1})
			require.NoError(t, err)
		}
		synctest.Wait()
		for _, in := range held {
			_ = in.Respond(Response{}) // answer one request
		}
		synctest.Wait()
		require.NoError(t, server.Err())
		require.Zero(t, program.incoming)
		require.Zero(t, server.outgoing)
	})
}

// The end of a connection ends its requests and streams at both ends.
func TestConnCloseEndsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		accepted := make(chan *Incoming, 1)
		server, program := newConnPair(t, nil, func(in *Incoming) error { accepted <- in; return nil })
		out, err := server.Call(Request{Op: OpTar, Streams: 1})
		require.NoError(t, err)
		in := <-accepted
		read := make(chan error, 2)
		for _, s := range []*Stream{out.Stream(0), in.Stream(0)} {
			go func() { // ends with the connection
				_, err := s.Read(make([]byte, 1))
				read <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, program.Close())
		<-server.Closed()
		<-in.Closed()
		require.ErrorIs(t, <-read, errConnLost)
		require.ErrorIs(t, <-read, errConnLost)
		_, err = out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, errConnLost)
		_, err = server.Call(Request{Op: OpTar})
		require.ErrorIs(t, err, errConnLost)
		require.Error(t, server.Notify(Request{Op: OpCancel}))
		require.Error(t, in.Respond(Response{}))
		out.Abandon()
	})
}

// An error of the handler ends the connection.
func TestHandlerErrorClosesConn(t *testing.T) {
	t.Parallel()
	errHandler := errors.New("handler failed")
	synctest.Test(t, func(t *testing.T) {
		server, program := newConnPair(t, nil, func(*Incoming) error { return errHandler })
		out, err := server.Call(Request{Op: OpRun})
		require.NoError(t, err)
		<-server.Closed()
		require.ErrorIs(t, program.Err(), errHandler)
		select {
		case <-out.events:
			t.Error("unexpected response")
		default:
		}
	})
}
