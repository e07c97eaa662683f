package shim

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A request's own window limits both directions of its streams, if both ends know
// of such windows.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		features []string
		window   int
	}{{features, minWindow}, {nil, Window}} {
		synctest.Test(t, func(t *testing.T) {
			s, p, ours, theirs := newChannelConns(t)
			s.features, p.features = c.features, c.features
			accepted := make(chan *Incoming, 1)
			server, program := NewConn(ours, s, nil, nil), NewConn(theirs, p, func(in *Incoming) error { accepted <- in; return nil }, nil)
			go server.Run() // both end with the connection
			go program.Run()
			defer server.Close()
			out, err := server.Call(Request{Op: OpTar, Streams: 1, Window: minWindow})
			require.NoError(t, err)
			in := <-accepted
			for _, way := range [][2]*Stream{{out.Stream(0), in.Stream(0)}, {in.Stream(0), out.Stream(0)}} {
				go func() { _, _ = way[0].Write(make([]byte, 2*c.window)) }() // ends with the connection
				synctest.Wait()
				require.Equal(t, c.window, received(way[1]))
				_, err := way[1].Read(make([]byte, 1))
				require.NoError(t, err)
			}
		})
	}
}

// received returns how many bytes a stream holds.
func received(s *Stream) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, chunk := range s.chunks {
		n += len(chunk.unread)
	}
	return n
}

// A program of an older server gets no more requests than it allows.
func TestLimitsOfEarlyProgram(t *testing.T) {
	for _, c := range []struct {
		features []string
		streams  int
	}{{features, Program.maxStreams}, {nil, 64}} {
		synctest.Test(t, func(t *testing.T) {
			s, p, ours, theirs := newChannelConns(t)
			s.features = c.features
			server, program := NewConn(ours, s, nil, nil), NewConn(theirs, p, func(*Incoming) error { return nil }, nil)
			go server.Run() // both end with the connection
			go program.Run()
			defer server.Close()
			for range c.streams {
				_, err := server.Call(Request{Op: OpTar, Streams: 1})
				require.NoError(t, err)
			}
			_, err := server.Call(Request{Op: OpTar, Streams: 1})
			require.ErrorIs(t, err, errTooManyOpen)
		})
	}
}
