package shim

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// recordedStream is a stream whose other end is played back and that keeps what is
// written.
type recordedStream struct {
	io.Reader
	written bytes.Buffer
}

func (r *recordedStream) Write(p []byte) (int, error) { return r.written.Write(p) }

// newChannelPair are both ends of a channel over streams that a test may change.
func newChannelPair(t *testing.T) (server, program *Channel) {
	t.Helper()
	key := DeriveKey(secret, "c")
	ours, theirs := net.Pipe()
	done := make(chan *Channel, 1)
	go func() { // ends with the handshake
		c, _ := ProgramHandshake(theirs, key, HandshakeReply{BootID: "a"})
		done <- c
	}()
	server, reply, err := ServerHandshake(ours, key, Version)
	require.NoError(t, err)
	require.Equal(t, "a", reply.BootID)
	program = <-done
	require.NotNil(t, program)
	return server, program
}

// sentFrames are some that the server sends, as they cross the stream.
func sentFrames(t *testing.T, server *Channel) (all [][]byte) {
	t.Helper()
	out := &recordedStream{}
	server.stream = out
	for _, word := range []string{"first secret", "second secret"} {
		require.NoError(t, server.Write(KindRequest, Request{RunID: word}))
		all = append(all, bytes.Clone(out.written.Bytes()))
		out.written.Reset()
	}
	return all
}

// What arrives is what was sent, all of it, in order, and nobody between the
// ends could read it.
func TestChannelIntegrity(t *testing.T) {
	t.Parallel()
	changed := func(f []byte, at int) []byte {
		c := bytes.Clone(f)
		c[at] ^= 1
		return c
	}
	for name, c := range map[string]struct {
		arrives func(f [][]byte) [][]byte
		intact  int // how many are read before it is noticed
	}{
		"as sent":              {func(f [][]byte) [][]byte { return f }, 2},
		"repeated":             {func(f [][]byte) [][]byte { return [][]byte{f[0], f[0]} }, 1},
		"in another order":     {func(f [][]byte) [][]byte { return [][]byte{f[1], f[0]} }, 0},
		"the first left out":   {func(f [][]byte) [][]byte { return f[1:] }, 0},
		"another kind":         {func(f [][]byte) [][]byte { return [][]byte{changed(f[0], 4)} }, 0},
		"a changed body":       {func(f [][]byte) [][]byte { return [][]byte{changed(f[0], 7)} }, 0},
		"a changed end":        {func(f [][]byte) [][]byte { return [][]byte{changed(f[0], len(f[0])-1)} }, 0},
		"none that was sealed": {func([][]byte) [][]byte { return [][]byte{{0, 0, 0, 2, 'Q', '{', '}'}} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, program := newChannelPair(t)
			sent := sentFrames(t, server)
			require.NotContains(t, string(sent[0]), "secret")
			arrived := c.arrives(sent)
			program.stream = &recordedStream{Reader: bytes.NewReader(bytes.Join(arrived, nil))}
			for range c.intact {
				_, err := program.Read()
				require.NoError(t, err)
			}
			if c.intact < len(arrived) {
				_, err := program.Read()
				require.ErrorIs(t, err, ErrProtocol)
			}
		})
	}
}

// A frame is good in its own direction and session only.
func TestChannelKeysDiffer(t *testing.T) {
	t.Parallel()
	server, program := newChannelPair(t)
	other, _ := newChannelPair(t)
	sent := sentFrames(t, server)
	for _, receiver := range []*Channel{server, other} {
		receiver.stream = &recordedStream{Reader: bytes.NewReader(sent[0])}
		_, err := receiver.Read()
		require.ErrorIs(t, err, ErrProtocol)
	}
	program.stream = &recordedStream{Reader: bytes.NewReader(sent[0])}
	_, err := program.Read()
	require.NoError(t, err)
}

// A program without the key is told nothing but a nonce, and is out of control;
// one that gives back what it was told is, too.
func TestUnauthenticatedProgramIsTainted(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(conn net.Conn){
		"another key": func(conn net.Conn) {
			_, _ = ProgramHandshake(conn, DeriveKey(secret, "other"), HandshakeReply{BootID: "a"})
		},
		"a proof without a key": func(conn net.Conn) {
			_, _ = ReadFrame(conn, MaxHandshake)
			_ = WriteFrame(conn, KindHandshakeReply, HandshakeReply{Version: Version, BootID: "a"})
			_ = WriteFrame(conn, KindProof, Proof{})
		},
		"a fault without a proof": func(conn net.Conn) {
			_, _ = ReadFrame(conn, MaxHandshake)
			_ = WriteFrame(conn, KindHandshakeReply, HandshakeReply{Version: Version, BootID: "a",
				Error: &WireError{Code: CodeStart, Reason: runtime.StartBinaryNotFound}})
			_ = WriteFrame(conn, KindProof, Proof{MAC: make([]byte, 32)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scriptedSession(t, func(p *peer) { play(p.conn) })
			err := s.Open(t.Context())
			require.ErrorIs(t, err, runtime.ErrTainted)
			require.ErrorContains(t, err, "could not prove that it is our program")
		})
	}
}

// A server without the key is not let in, whatever it sends: neither the
// program's own proof, nor none.
func TestUnauthenticatedServerIsRefused(t *testing.T) {
	t.Parallel()
	for name, proofFor := range map[string]func(programProof Frame) any{
		"the program's own": func(programProof Frame) any { return json.RawMessage(programProof.Body) },
		"none":              func(Frame) any { return Proof{} },
	} {
		ours, theirs := net.Pipe()
		go func() { // ends with the handshake
			_, _ = writeHandshake(ours, KindHandshake, Handshake{Version: Version, Nonce: newNonce()})
			_, _ = ReadFrame(ours, maxHandshakeReply)
			programProof, _ := ReadFrame(ours, MaxHandshake)
			_ = WriteFrame(ours, KindProof, proofFor(programProof))
		}()
		_, err := ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a"})
		require.ErrorIs(t, err, errUnauthenticated, name)
		require.ErrorIs(t, err, runtime.ErrTainted, name)
		ours.Close()
		theirs.Close()
	}
}
