package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownByte returns the byte at an offset of what is sent on the stream with a number.
func ownByte(stream, offset int) byte {
	return byte(stream*37 + offset + offset>>8*13 + offset>>16*29) //nolint:gosec // any byte
}

// ownReader checks that it gets the bytes of its stream.
type ownReader struct {
	stream, offset int
	most           int // after that it fails
}

func (r *ownReader) Write(p []byte) (int, error) {
	for i, b := range p {
		if b != ownByte(r.stream, r.offset+i) {
			return i, fmt.Errorf("stream %d has %x at %d", r.stream, b, r.offset+i)
		}
	}
	r.offset += len(p)
	if r.offset > r.most {
		return len(p), io.ErrShortWrite
	}
	return len(p), nil
}

// sendOwn sends bytes of a stream, in pieces of random sizes around those where a
// buffer is exchanged.
func sendOwn(s *Stream, stream, size int, random *rand.Rand) error {
	buf := make([]byte, 3*MaxData)
	for offset := 0; offset < size; {
		n := random.IntN([]int{10, minChunkSize + 2, frameBuffer, 3 * MaxData}[random.IntN(4)])
		n = min(n+1, size-offset, len(buf))
		for i := range n {
			buf[i] = ownByte(stream, offset+i)
		}
		if _, err := s.Write(buf[:n]); err != nil {
			return err
		}
		clear(buf) // it is the caller's again
		offset += n
	}
	return s.CloseWrite()
}

// receiveOwn receives the bytes of a stream in one of the ways, and closes it early if
// most is less than what is sent.
func receiveOwn(s *Stream, r *ownReader, random *rand.Rand) error {
	if random.IntN(2) == 0 {
		_, err := s.WriteTo(r)
		return err
	}
	buf := make([]byte, []int{1000, minChunkSize, MaxData, 2 * MaxData}[random.IntN(4)])
	for {
		n, err := s.Read(buf[:1+random.IntN(len(buf))])
		if n > 0 {
			if _, err := r.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// A byte of one stream never appears in another one, of its session or of any other,
// while frames and streams exchange their buffers, readers of all kinds are slow, and
// others are closed in the middle.
func TestStreamsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	const sessions, requests, size = 2, 8, 1<<20 + 12345
	var all sync.WaitGroup
	for session := range sessions {
		accepted := make(chan *Incoming, requests)
		server, program := newConnPair(t, nil, func(in *Incoming) error { accepted <- in; return nil })
		for request := range requests {
			window := []int{0, minWindow, 64 << 10, 256 << 10}[request%4]
			out, err := server.Call(Request{Op: OpTar, Streams: 1, Window: window})
			require.NoError(t, err)
			in := <-accepted
			for direction, ends := range [][2]*Stream{{out.Stream(0), in.Stream(0)}, {in.Stream(0), out.Stream(0)}} {
				number := (session*requests+request)*2 + direction
				r := &ownReader{stream: number, most: size}
				isCut := request >= requests/2 && direction == 0
				if isCut {
					r.most = size / 3
				}
				isReset := request >= requests/2
				all.Go(func() {
					err := sendOwn(ends[0], number, size, rand.New(rand.NewPCG(1, uint64(number))))
					assert.True(t, err == nil || isReset, "%v", err)
				})
				all.Go(func() {
					err := receiveOwn(ends[1], r, rand.New(rand.NewPCG(2, uint64(number))))
					switch {
					case isCut:
						assert.ErrorIs(t, err, io.ErrShortWrite)
						ends[1].Reset(errAbandoned)
					case isReset: // by the other direction
						assert.NotContains(t, fmt.Sprint(err), " has ")
					default:
						assert.True(t, err == nil || errors.Is(err, io.EOF), "%v", err)
						assert.Equal(t, size, r.offset)
					}
				})
			}
		}
		t.Cleanup(func() { require.NoError(t, server.Err()); require.NoError(t, program.Err()) })
	}
	all.Wait()
}

// A stream holds at most twice its window and as much for what comes next, whatever
// pieces arrive and however they are read, and almost nothing if its window is small.
func TestMemoryOfStream(t *testing.T) {
	t.Parallel()
	for _, window := range []int{minWindow, 64 << 10, CommandWindow, Window} {
		random := rand.New(rand.NewPCG(3, uint64(window)))
		s := newStream(nil, 0, window)
		s.exchange = &exchange{conn: &Conn{}}
		s.exchange.ended.Store(true) // nothing is sent
		most, buf := 0, make([]byte, MaxData)
		for range 1500 {
			size := []int{1, minChunkSize / 2, minChunkSize, frameBuffer / 2, frameBuffer/2 + 1, MaxData}[random.IntN(6)]
			if size <= s.recvWindow && random.IntN(3) > 0 {
				frame := make([]byte, frameBuffer)
				require.NoError(t, s.handleData(frame[streamHeaderSize:][:size], &frame))
				require.Len(t, frame, frameBuffer)
			} else if len(s.chunks) > 0 {
				_, err := s.Read(buf[:1+random.IntN(len(buf))])
				require.NoError(t, err)
			}
			held := 0
			for _, c := range s.chunks {
				held += cap(c.buffer)
			}
			for _, b := range s.spare {
				held += cap(b)
			}
			most = max(most, held)
		}
		require.LessOrEqual(t, most, 3*window+frameBuffer, "a window of %d bytes", window)
		for len(s.chunks) > 0 {
			_, err := s.Read(buf)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(s.spare)*MaxData, window, "of an idle stream")
	}
}

// What a goroutine is about to send when another one resets the stream is not sent
// after the reset: the other end would take that for a violation, and every request of
// the connection would be lost.
func TestNothingFollowsReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, in := newStreams(t, 1)
		s := out.Stream(0)
		s.Reset(errAbandoned)
		require.ErrorIs(t, s.send(KindData, []byte("x")), errAbandoned)
		require.ErrorIs(t, s.send(KindCredit, creditBody(1)), errAbandoned)
		require.ErrorIs(t, s.send(KindEnd, nil), errAbandoned)
		synctest.Wait()
		require.NoError(t, out.conn.Err())
		require.NoError(t, in.conn.Err())
		require.NoError(t, in.Respond(Response{}))
		<-out.events
	})
}

// Bytes that are being written stay as they are while more arrives.
func TestWrittenBytesAreKept(t *testing.T) {
	t.Parallel()
	s := newStream(nil, 0, Window)
	s.exchange = &exchange{conn: &Conn{}}
	s.exchange.ended.Store(true) // nothing is sent
	require.NoError(t, s.handleData(bytes.Repeat([]byte{1}, MaxData), nil))
	arrived := 1
	_, err := s.WriteTo(writerFunc(func(p []byte) (int, error) {
		want := bytes.Clone(p)
		for range 2 {
			arrived++
			frame := bytes.Repeat([]byte{byte(arrived)}, frameBuffer) //nolint:gosec // small
			require.NoError(t, s.handleData(frame[:MaxData], &frame))
			clear(frame) // the next frame
			require.NoError(t, s.handleData(frame[:1], nil))
			require.NoError(t, s.handleData(bytes.Repeat([]byte{200}, MaxData), nil))
		}
		require.Equal(t, want, p)
		return 0, io.ErrClosedPipe
	}))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, 3, arrived)
}
