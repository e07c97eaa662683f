package shim

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newStreams returns a request with streams, at both ends.
func newStreams(t *testing.T, streams int) (out Outgoing, in *Incoming) {
	t.Helper()
	accepted := make(chan *Incoming, 1)
	server, _ := newConnPair(t, nil, func(in *Incoming) error {
		if in.Request.Op == OpWaitResult {
			return echo(in)
		}
		accepted <- in
		return nil
	})
	out, err := server.Call(Request{Op: OpTar, Streams: streams})
	require.NoError(t, err)
	return out, <-accepted
}

func randomBytes(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	return b
}

// Bytes arrive as sent, in both directions concurrently and on each stream
// independently. Each direction ends by itself, and the response follows.
func TestStreamsInBothDirections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 2)
		upload, download := randomBytes(5*Window+7), randomBytes(3*Window+1)
		for n := range 2 {
			go func() { // both end with what they write
				_, err := out.Stream(n).Write(upload[n:])
				assert.NoError(t, err)
				assert.NoError(t, out.Stream(n).CloseWrite())
			}()
			go func() {
				_, err := in.Stream(n).Write(download[n:])
				assert.NoError(t, err)
				assert.NoError(t, in.Stream(n).CloseWrite())
			}()
		}
		for n := range 2 {
			got, err := io.ReadAll(in.Stream(n))
			require.NoError(t, err)
			require.True(t, bytes.Equal(upload[n:], got))
			got, err = io.ReadAll(out.Stream(n))
			require.NoError(t, err)
			require.True(t, bytes.Equal(download[n:], got))
		}
		require.NoError(t, in.Respond(Response{}))
		ev := <-out.events
		require.Nil(t, ev.response.Error)
		synctest.Wait()
		require.Empty(t, out.conn.exchanges)
		require.Empty(t, in.conn.exchanges)
		require.Zero(t, out.conn.outgoing)
		require.Zero(t, in.conn.incoming)
		_, err := out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, errRequestEnded)
	})
}

// A direction that the response cuts off is not complete, but received bytes
// can still be read.
func TestResponseEndsStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		_, err := in.Stream(0).Write([]byte("a part"))
		require.NoError(t, err)
		require.NoError(t, in.Respond(Response{}))
		require.ErrorIs(t, in.Stream(0).CloseWrite(), errRequestEnded)
		_, err = in.Stream(0).Read(make([]byte, 1))
		require.ErrorIs(t, err, errRequestEnded, "the reader at the other end, too")
		got, err := io.ReadAll(out.Stream(0))
		require.ErrorIs(t, err, errRequestEnded)
		require.Equal(t, "a part", string(got))
	})
}

// An unread stream uses a window at most and blocks neither a request nor
// another stream. When it is read, it continues.
func TestStalledStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 2)
		sent := randomBytes(2 * Window)
		written := 0
		go func() { // ends with what it writes
			for at := 0; at < len(sent); at += 1000 {
				n, err := in.Stream(0).Write(sent[at:min(at+1000, len(sent))])
				assert.NoError(t, err)
				written += n
			}
			assert.NoError(t, in.Stream(0).CloseWrite())
		}()
		synctest.Wait()
		buffered, allocated := 0, 0
		for _, chunk := range out.Stream(0).chunks {
			buffered, allocated = buffered+len(chunk.unread), allocated+cap(chunk.buffer)
		}
		require.Equal(t, Window, buffered)
		require.LessOrEqual(t, len(out.Stream(0).chunks), Window/minChunkSize*4/3+1, "small pieces share their chunks")
		require.LessOrEqual(t, allocated, 2*Window)
		require.LessOrEqual(t, written, Window)

		start := time.Now()
		other, err := out.conn.Call(Request{Op: OpWaitResult, RunID: "another run"})
		require.NoError(t, err)
		require.Equal(t, "another run", (<-other.events).response.Error.Detail)
		go func() { _, _ = in.Stream(1).Write(sent); _ = in.Stream(1).CloseWrite() }() // ends with what it writes
		got, err := io.ReadAll(out.Stream(1))
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
		require.Zero(t, time.Since(start))

		got, err = io.ReadAll(out.Stream(0))
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
	})
}

// A reset ends both directions at both ends with its reason, and drops unread
// bytes. Frames in transit are not a violation.
func TestStreamReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		errReset := errors.New("reset by the test")
		blocked := make(chan error, 1)
		go func() { // ends with the reset
			_, err := in.Stream(0).Write(randomBytes(2 * Window))
			blocked <- err
		}()
		synctest.Wait()
		out.Stream(0).Reset(errReset)
		out.Stream(0).Reset(errors.New("again"))
		require.ErrorContains(t, <-blocked, "reset by the test")
		_, err := in.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, "reset by the test")
		_, err = out.Stream(0).Read(make([]byte, 1))
		require.ErrorIs(t, err, errReset)
		_, err = out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, errReset)
		require.Empty(t, out.Stream(0).chunks)
		in.Stream(0).Reset(errors.New("second reset"))
		_, err = in.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, "reset by the test", "the first reason remains")
		require.NoError(t, in.Respond(Response{}))
		require.NotNil(t, (<-out.events).response)
		synctest.Wait()
		require.NoError(t, out.conn.Err())
		require.NoError(t, in.conn.Err())
	})
}

// Data that arrives after this end has reset a stream is dropped, and this
// end's reason remains.
func TestDataAfterReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRogue(t, Server)
		r.request(1, 1)
		synctest.Wait()
		s := r.accepted[0].Stream(0)
		s.Reset(errCancelled)
		r.fillWindow(1, 0)
		synctest.Wait()
		require.Empty(t, s.chunks)
		r.frame(KindReset, 1, []byte("{}"))
		synctest.Wait()
		_, err := s.Read(make([]byte, 1))
		require.ErrorIs(t, err, errCancelled)
		require.NoError(t, r.victim.Err())
		require.False(t, r.victim.hasPendingRequest(), "a request of the peer does not count")
		r.victim.Close()
	})
}

// Nothing can be written after CloseWrite.
func TestWriteAfterCloseWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		require.NoError(t, out.Stream(0).CloseWrite())
		_, err := out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, errWriteClosed)
		require.ErrorIs(t, out.Stream(0).CloseWrite(), errWriteClosed)
		_, err = in.Stream(0).Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, in.conn.Err())
	})
}

// A caller that abandons a request resets its streams, whatever is in transit.
// The request ends when the peer has answered.
func TestAbandonedRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		out.Abandon()
		_, err := in.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, errAbandoned.Error())
		require.NoError(t, in.Respond(Response{}))
		synctest.Wait()
		require.Empty(t, out.conn.exchanges)
		require.Empty(t, in.conn.exchanges)
		out.Abandon()
		require.NoError(t, out.conn.Err())
		require.NoError(t, in.conn.Err())
	})
}

// Both ends may concurrently reset a stream, end it and respond.
func TestConcurrentResetAndResponse(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			out, in := newStreams(t, 1)
			for _, s := range []*Stream{out.Stream(0), in.Stream(0)} {
				go func() { _, _ = s.Write(randomBytes(Window + 5)) }() // all end with the reset
				go func() { _, _ = io.CopyN(io.Discard, s, Window/2) }()
				go func() { _ = s.CloseWrite() }()
				go s.Reset(io.ErrClosedPipe)
			}
			go func() { _ = in.Respond(Response{}) }()
			<-out.events
			out.Abandon()
			synctest.Wait()
			require.NoError(t, out.conn.Err())
			require.NoError(t, in.conn.Err())
			require.Empty(t, in.conn.exchanges)
		})
	}
}

// A reset without a reason resets the stream and does not crash the server.
func TestStreamResetWithoutReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		out.Stream(0).Reset(nil)
		_, err := out.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, "was reset")
		synctest.Wait()
		_, err = in.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, "was reset")
	})
}

// Buffers of large chunks are used again, and only a few are kept.
func TestChunkBuffersAreReused(t *testing.T) {
	s := newStream(nil, 0, Window)
	s.exchange = &exchange{conn: &Conn{}}
	s.exchange.ended.Store(true) // nothing is sent
	body, got := bytes.Repeat([]byte("x"), MaxData), make([]byte, MaxData)
	for range 2 * maxSpare {
		require.NoError(t, s.handleData(body, nil))
	}
	first := &s.chunks[0].buffer[:1][0]
	for range 2 * maxSpare {
		_, err := io.ReadFull(s, got)
		require.NoError(t, err)
		require.Equal(t, body, got)
	}
	require.Len(t, s.spare, maxSpare)
	require.Same(t, first, &s.spare[0][:1][0])
	for i := range 2 * maxSpare {
		require.NoError(t, s.handleData(bytes.Repeat([]byte{byte(i)}, MaxData), nil))
	}
	require.Empty(t, s.spare)
	for i := range 2 * maxSpare {
		_, err := io.ReadFull(s, got)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, MaxData), got)
	}
	require.NoError(t, s.handleData(body[:5], nil))
	require.Equal(t, minChunkSize, cap(s.chunks[0].buffer))
	s.abort(errAbandoned)
	require.Empty(t, s.spare)
}

// A large piece stays in the buffer of its frame, which gets another one; a small piece
// is copied.
func TestLargeChunksKeepTheirFrame(t *testing.T) {
	s := newStream(nil, 0, Window)
	s.exchange = &exchange{conn: &Conn{}}
	s.exchange.ended.Store(true) // nothing is sent
	for _, size := range []int{MaxData, frameBuffer / 2, frameBuffer/2 - 1, 1} {
		arrived := make([]byte, frameBuffer)
		frame := arrived
		body := frame[streamHeaderSize:][:size]
		copy(body, randomBytes(size))
		want := bytes.Clone(body)
		require.NoError(t, s.handleData(body, &frame))
		require.Len(t, frame, frameBuffer)
		require.Equal(t, size >= frameBuffer/2, &frame[0] != &arrived[0], "%d bytes: the frame has another buffer", size)
		clear(frame) // the next frame
		got := make([]byte, size)
		_, err := io.ReadFull(s, got)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// WriteTo writes what arrives until the end, in the buffers in which it arrived, and
// the peer may send more only when it is written.
func TestWriteTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		sent := randomBytes(3*Window + 5)
		go func() { // ends with what it writes
			for at := 0; at < len(sent); at += 50_000 {
				_, err := out.Stream(0).Write(sent[at:min(at+50_000, len(sent))])
				assert.NoError(t, err)
			}
			assert.NoError(t, out.Stream(0).CloseWrite())
		}()
		synctest.Wait()
		to := &gatedWriter{open: make(chan struct{})}
		var written int64
		var err error
		done := make(chan struct{})
		go func() { // ends with the stream
			written, err = in.Stream(0).WriteTo(to)
			close(done)
		}()
		synctest.Wait()
		s := in.Stream(0)
		require.Zero(t, s.recvWindow, "what is being written is not free")
		close(to.open)
		<-done
		require.NoError(t, err)
		require.EqualValues(t, len(sent), written)
		require.True(t, bytes.Equal(sent, to.Bytes()))
		require.NoError(t, in.Respond(Response{}))
		<-out.events
	})
}

// WriteTo ends with the error of the writer, or of the stream.
func TestWriteToFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		_, err := out.Stream(0).Write([]byte("abc"))
		require.NoError(t, err)
		full := errors.New("full")
		_, err = in.Stream(0).WriteTo(writerFunc(func([]byte) (int, error) { return 1, full }))
		require.ErrorIs(t, err, full)
		_, err = out.Stream(0).Write(randomBytes(MaxData))
		require.NoError(t, err)
		synctest.Wait()
		lost := errors.New("lost")
		written, err := in.Stream(0).WriteTo(writerFunc(func(p []byte) (int, error) {
			out.Stream(0).Reset(lost)
			synctest.Wait()
			return len(p), nil
		}))
		require.ErrorContains(t, err, "lost")
		require.EqualValues(t, MaxData, written)
		require.Empty(t, in.Stream(0).spare, "its buffers")
		require.NoError(t, in.Respond(Response{}))
		<-out.events
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// gatedWriter is a buffer that is written to when it is open.
type gatedWriter struct {
	open chan struct{}
	bytes.Buffer
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	<-w.open
	return w.Buffer.Write(p)
}
