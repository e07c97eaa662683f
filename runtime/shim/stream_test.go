package shim

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipeline is a request with streams, at both ends.
func pipeline(t *testing.T, streams int) (out Outgoing, in *Incoming) {
	t.Helper()
	began := make(chan *Incoming, 1)
	server, _ := conns(t, nil, func(in *Incoming) error {
		if in.Request.Op == OpOutcome {
			return echo(in)
		}
		began <- in
		return nil
	})
	out, err := server.Ask(Request{Op: OpTar, Streams: streams})
	require.NoError(t, err)
	return out, <-began
}

func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b) // it never fails
	return b
}

// Bytes arrive as they were sent, in both directions at once and on each stream
// for itself; each direction ends by itself, and the answer comes after.
func TestStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := pipeline(t, 2)
		there, back := random(5*Window+7), random(3*Window+1)
		for n := range 2 {
			go func() { // both end with what they write
				_, err := out.Stream(n).Write(there[n:])
				require.NoError(t, err)
				require.NoError(t, out.Stream(n).CloseWrite())
			}()
			go func() {
				_, err := in.Stream(n).Write(back[n:])
				require.NoError(t, err)
				require.NoError(t, in.Stream(n).CloseWrite())
			}()
		}
		for n := range 2 {
			got, err := io.ReadAll(in.Stream(n))
			require.NoError(t, err)
			require.True(t, bytes.Equal(there[n:], got))
			got, err = io.ReadAll(out.Stream(n))
			require.NoError(t, err)
			require.True(t, bytes.Equal(back[n:], got))
		}
		require.NoError(t, in.Answer(Answer{}))
		ev := <-out.events
		require.Nil(t, ev.answer.Fault)
		synctest.Wait()
		require.Empty(t, out.conn.open)
		require.Empty(t, in.conn.open)
		require.Zero(t, out.conn.asking)
		require.Zero(t, in.conn.serving)
		_, err := out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, errAnswered)
	})
}

// A direction that the answer has cut off is no whole one, but what has come is
// there.
func TestAnswerCutsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := pipeline(t, 1)
		_, err := in.Stream(0).Write([]byte("a part"))
		require.NoError(t, err)
		require.NoError(t, in.Answer(Answer{}))
		require.ErrorIs(t, in.Stream(0).CloseWrite(), errAnswered)
		_, err = in.Stream(0).Read(make([]byte, 1))
		require.ErrorIs(t, err, errAnswered, "the reader at the other end gets it, too")
		got, err := io.ReadAll(out.Stream(0))
		require.ErrorIs(t, err, errAnswered)
		require.Equal(t, "a part", string(got))
	})
}

// A stream that nobody reads takes a window and no more, and holds up neither a
// request nor another stream. When it is read it goes on.
func TestStalledStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := pipeline(t, 2)
		sent := random(2 * Window)
		written := 0
		go func() { // ends with what it writes
			for at := 0; at < len(sent); at += 1000 {
				n, err := in.Stream(0).Write(sent[at:min(at+1000, len(sent))])
				require.NoError(t, err)
				written += n
			}
			require.NoError(t, in.Stream(0).CloseWrite())
		}()
		synctest.Wait()
		held, taken := 0, 0
		for _, chunk := range out.Stream(0).chunks {
			held, taken = held+len(chunk), taken+cap(chunk)
		}
		require.Equal(t, Window, held)
		require.LessOrEqual(t, len(out.Stream(0).chunks), Window/minChunk*4/3+1, "small pieces share their chunks")
		require.LessOrEqual(t, taken, 2*Window)
		require.LessOrEqual(t, written, Window)

		begun := time.Now()
		other, err := out.conn.Ask(Request{Op: OpOutcome, Key: "beside it"})
		require.NoError(t, err)
		require.Equal(t, "beside it", (<-other.events).answer.Fault.Detail)
		go func() { _, _ = in.Stream(1).Write(sent); _ = in.Stream(1).CloseWrite() }() // ends with what it writes
		got, err := io.ReadAll(out.Stream(1))
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
		require.Zero(t, time.Since(begun))

		got, err = io.ReadAll(out.Stream(0))
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
	})
}

// A reset ends both directions at both ends, says why, and drops what was not
// read; what is on the way is no offence.
func TestReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := pipeline(t, 1)
		enough := errors.New("enough of it")
		blocked := make(chan error, 1)
		go func() { // ends with the reset
			_, err := in.Stream(0).Write(random(2 * Window))
			blocked <- err
		}()
		synctest.Wait()
		out.Stream(0).Reset(enough)
		out.Stream(0).Reset(errors.New("again"))
		require.ErrorContains(t, <-blocked, "enough of it")
		_, err := in.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, "enough of it")
		_, err = out.Stream(0).Read(make([]byte, 1))
		require.ErrorIs(t, err, enough)
		_, err = out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, enough)
		require.Empty(t, out.Stream(0).chunks)
		in.Stream(0).Reset(errors.New("this end, too"))
		_, err = in.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, "enough of it", "the first reason stays")
		require.NoError(t, in.Answer(Answer{}))
		require.NotNil(t, (<-out.events).answer)
		synctest.Wait()
		require.NoError(t, out.conn.Err())
		require.NoError(t, in.conn.Err())
	})
}

// What comes after this end has broken a stream off is dropped, and the reason of
// this end stays.
func TestAfterReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := against(t, Server)
		r.ask(1, 1)
		synctest.Wait()
		s := r.begun[0].Stream(0)
		s.Reset(errEnough)
		r.fill(1, 0)
		synctest.Wait()
		require.Empty(t, s.chunks)
		r.frame(KindReset, 1, []byte("{}"))
		synctest.Wait()
		_, err := s.Read(make([]byte, 1))
		require.ErrorIs(t, err, errEnough)
		require.NoError(t, r.victim.Err())
		require.False(t, r.victim.isWaited(), "a request of the peer's is not waited for")
		r.victim.Close()
	})
}

// Nothing is written after the end.
func TestWriteAfterEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := pipeline(t, 1)
		require.NoError(t, out.Stream(0).CloseWrite())
		_, err := out.Stream(0).Write([]byte("x"))
		require.ErrorIs(t, err, errWriteClosed)
		require.ErrorIs(t, out.Stream(0).CloseWrite(), errWriteClosed)
		_, err = in.Stream(0).Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, in.conn.Err())
	})
}

// Who drops a request tells the peer by its streams, whatever is on the way, and
// the request is over when the peer has answered.
func TestForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := pipeline(t, 1)
		out.Forget()
		_, err := in.Stream(0).Read(make([]byte, 1))
		require.ErrorContains(t, err, errForgotten.Error())
		require.NoError(t, in.Answer(Answer{}))
		synctest.Wait()
		require.Empty(t, out.conn.open)
		require.Empty(t, in.conn.open)
		out.Forget()
		require.NoError(t, out.conn.Err())
		require.NoError(t, in.conn.Err())
	})
}

// Both ends may reset a stream, end it and answer at the same moment.
func TestCrossing(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			out, in := pipeline(t, 1)
			for _, s := range []*Stream{out.Stream(0), in.Stream(0)} {
				go func() { _, _ = s.Write(random(Window + 5)) }() // all end with the reset
				go func() { _, _ = io.CopyN(io.Discard, s, Window/2) }()
				go func() { _ = s.CloseWrite() }()
				go s.Reset(io.ErrClosedPipe)
			}
			go func() { _ = in.Answer(Answer{}) }()
			<-out.events
			out.Forget()
			synctest.Wait()
			require.NoError(t, out.conn.Err())
			require.NoError(t, in.conn.Err())
			require.Empty(t, in.conn.open)
		})
	}
}
