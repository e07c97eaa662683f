package shim

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A program that has not proven that it holds the key learns nothing from the
// server except its handshake, so nothing that it could use against another
// server.
func TestUnauthenticatedProgramLearnsNothing(t *testing.T) {
	t.Parallel()
	var input bytes.Buffer
	require.NoError(t, WriteFrame(&input, KindHandshakeReply, HandshakeReply{Version: Version, Nonce: newNonce(), BootID: "a"}))
	require.NoError(t, WriteFrame(&input, KindProof, Proof{MAC: make([]byte, 32)}))
	stream := &recordedStream{Reader: &input}
	_, _, err := ServerHandshake(stream, DeriveKey(secret, "c"), Version)
	require.ErrorIs(t, err, runtime.ErrTainted)
	f, err := ReadFrame(&stream.written, MaxHandshake)
	require.NoError(t, err)
	require.Equal(t, KindHandshake, f.Kind)
	require.Zero(t, stream.written.Len(), "more than the handshake")
}

// alteredHandshake runs a handshake and changes its messages in transit.
func alteredHandshake(t *testing.T, change func(*Handshake, *HandshakeReply)) (Handshake, HandshakeReply, error) {
	t.Helper()
	key := DeriveKey(secret, "c")
	server, here := net.Pipe()
	there, program := net.Pipe()
	defer server.Close()
	go func() { // ends with the handshake
		_, _ = ProgramHandshake(program, key, HandshakeReply{BootID: "a"})
		program.Close()
	}()
	var hs Handshake
	var reply HandshakeReply
	done := make(chan struct{})
	go func() { // ends with the streams
		defer close(done)
		f, _ := ReadFrame(here, MaxHandshake)
		hs, _ = Decode[Handshake](f, KindHandshake)
		changed := hs
		change(&changed, &reply)
		_ = WriteFrame(there, KindHandshake, changed)
		f, _ = ReadFrame(there, maxHandshakeReply)
		reply, _ = Decode[HandshakeReply](f, KindHandshakeReply)
		changed2 := reply
		change(&hs, &changed2)
		_ = WriteFrame(here, KindHandshakeReply, changed2)
		go func() { _, _ = io.Copy(there, here) }()
		_, _ = io.Copy(here, there)
		here.Close()
	}()
	_, _, err := ServerHandshake(server, key, Version)
	server.Close()
	there.Close()
	<-done
	return hs, reply, err
}

// The proofs cover both handshake messages, so no one between the ends can
// change them. Every message is unique, so no one can replay one.
func TestHandshakeIsAuthenticated(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Handshake, *HandshakeReply){
		"the server's nonce":     func(h *Handshake, _ *HandshakeReply) { h.Nonce = bytes.Repeat([]byte{1}, 32) },
		"the server's features":  func(h *Handshake, _ *HandshakeReply) { h.Features = []string{"none"} },
		"the program's nonce":    func(_ *Handshake, w *HandshakeReply) { w.Nonce = bytes.Repeat([]byte{1}, 32) },
		"the program's features": func(_ *Handshake, w *HandshakeReply) { w.Features = []string{"none"} },
		"the boot":               func(_ *Handshake, w *HandshakeReply) { w.BootID = "b" },
		"an error":               func(_ *Handshake, w *HandshakeReply) { w.Error = &WireError{Code: CodeStart} },
	} {
		_, _, err := alteredHandshake(t, change)
		require.ErrorIs(t, err, runtime.ErrTainted, name)
	}
	hs, reply, err := alteredHandshake(t, func(*Handshake, *HandshakeReply) {})
	require.NoError(t, err)
	hs2, reply2, err := alteredHandshake(t, func(*Handshake, *HandshakeReply) {})
	require.NoError(t, err)
	nonces := map[string]bool{}
	for _, nonce := range [][]byte{hs.Nonce, reply.Nonce, hs2.Nonce, reply2.Nonce} {
		require.Len(t, nonce, 32)
		nonces[string(nonce)] = true
	}
	require.Len(t, nonces, 4)
}
