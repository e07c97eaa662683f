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

// recordedStream is a stream that replays its other end and records what is
// written.
type recordedStream struct {
	io.Reader
	written bytes.Buffer
}

func (r *recordedStream) Write(p []byte) (int, error) { return r.written.Write(p) }

// newChannelPair returns both ends of a channel over streams that a test may
// change.
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

// sentFrames returns frames from the server as they cross the stream.
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

// Frames arrive as sent, complete and in order, and no one between the ends can
// read them.
func TestChannelIntegrity(t *testing.T) {
	t.Parallel()
	changed := func(f []byte, at int) []byte {
		c := bytes.Clone(f)
		c[at] ^= 1
		return c
	}
	for name, c := range map[string]struct {
		arrives func(f [][]byte) [][]byte
		intact  int // frames that are read before the change is detected
	}{
		"unchanged":           {func(f [][]byte) [][]byte { return f }, 2},
		"repeated":            {func(f [][]byte) [][]byte { return [][]byte{f[0], f[0]} }, 1},
		"reordered":           {func(f [][]byte) [][]byte { return [][]byte{f[1], f[0]} }, 0},
		"first frame missing": {func(f [][]byte) [][]byte { return f[1:] }, 0},
		"changed kind":        {func(f [][]byte) [][]byte { return [][]byte{changed(f[0], 4)} }, 0},
		"changed body":        {func(f [][]byte) [][]byte { return [][]byte{changed(f[0], 7)} }, 0},
		"changed end":         {func(f [][]byte) [][]byte { return [][]byte{changed(f[0], len(f[0])-1)} }, 0},
		"unencrypted":         {func([][]byte) [][]byte { return [][]byte{{0, 0, 0, 2, 'Q', '{', '}'}} }, 0},
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

// A frame is valid only in its own direction and session.
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

// A program without the key receives only a nonce and is tainted. So is one
// that returns the proof that it received.
func TestUnauthenticatedProgramIsTainted(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(conn net.Conn){
		"another key": func(conn net.Conn) {
			_, _ = ProgramHandshake(conn, DeriveKey(secret, "other"), HandshakeReply{BootID: "a"})
		},
		"proof without key": func(conn net.Conn) {
			_, _ = ReadFrame(conn, MaxHandshake)
			_ = WriteFrame(conn, KindHandshakeReply, HandshakeReply{Version: Version, BootID: "a"})
			_ = WriteFrame(conn, KindProof, Proof{})
		},
		"error without proof": func(conn net.Conn) {
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
			require.ErrorContains(t, err, "peer is not authenticated")
		})
	}
}

// A server without the key is refused, whether it sends the program's own proof
// or none.
func TestUnauthenticatedServerIsRefused(t *testing.T) {
	t.Parallel()
	for name, proofFor := range map[string]func(programProof Frame) any{
		"the program's own proof": func(programProof Frame) any { return json.RawMessage(programProof.Body) },
		"none":                    func(Frame) any { return Proof{} },
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
