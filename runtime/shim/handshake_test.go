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
// server but its greeting: nothing that it could use against another.
func TestUnprovenProgramLearnsNothing(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	require.NoError(t, WriteFrame(&said, KindWelcome, Welcome{Version: Version, Nonce: newNonce(), Boot: "a"}))
	require.NoError(t, WriteFrame(&said, KindProof, Proof{MAC: make([]byte, 32)}))
	stream := &recorded{Reader: &said}
	_, _, err := Call(stream, Key(secret, "c"), Version)
	require.ErrorIs(t, err, runtime.ErrDoomed)
	f, err := ReadFrame(&stream.written, MaxHello)
	require.NoError(t, err)
	require.Equal(t, KindHello, f.Kind)
	require.Zero(t, stream.written.Len(), "more than the greeting")
}

// carried is a handshake whose greetings are changed on their way.
func carried(t *testing.T, change func(*Hello, *Welcome)) (Hello, Welcome, error) {
	t.Helper()
	key := Key(secret, "c")
	server, here := net.Pipe()
	there, program := net.Pipe()
	defer server.Close()
	go func() { // ends with the handshake
		_, _ = Accept(program, key, Welcome{Boot: "a"})
		program.Close()
	}()
	var hello Hello
	var welcome Welcome
	done := make(chan struct{})
	go func() { // ends with the streams
		defer close(done)
		f, _ := ReadFrame(here, MaxHello)
		hello, _ = Decode[Hello](f, KindHello)
		changed := hello
		change(&changed, &welcome)
		_ = WriteFrame(there, KindHello, changed)
		f, _ = ReadFrame(there, maxWelcome)
		welcome, _ = Decode[Welcome](f, KindWelcome)
		changed2 := welcome
		change(&hello, &changed2)
		_ = WriteFrame(here, KindWelcome, changed2)
		go func() { _, _ = io.Copy(there, here) }()
		_, _ = io.Copy(here, there)
		here.Close()
	}()
	_, _, err := Call(server, key, Version)
	server.Close()
	there.Close()
	<-done
	return hello, welcome, err
}

// Both greetings are part of what is proven, so that nobody between the ends can
// change what one says of itself, and no greeting is like another, so that
// nobody can play one back.
func TestGreetingsAreProven(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Hello, *Welcome){
		"the server's nonce":     func(h *Hello, _ *Welcome) { h.Nonce = bytes.Repeat([]byte{1}, 32) },
		"the server's features":  func(h *Hello, _ *Welcome) { h.Features = []string{"none"} },
		"the program's nonce":    func(_ *Hello, w *Welcome) { w.Nonce = bytes.Repeat([]byte{1}, 32) },
		"the program's features": func(_ *Hello, w *Welcome) { w.Features = []string{"none"} },
		"the boot":               func(_ *Hello, w *Welcome) { w.Boot = "b" },
		"a fault":                func(_ *Hello, w *Welcome) { w.Fault = &Fault{Code: CodeStart} },
	} {
		_, _, err := carried(t, change)
		require.ErrorIs(t, err, runtime.ErrDoomed, name)
	}
	hello, welcome, err := carried(t, func(*Hello, *Welcome) {})
	require.NoError(t, err)
	hello2, welcome2, err := carried(t, func(*Hello, *Welcome) {})
	require.NoError(t, err)
	nonces := map[string]bool{}
	for _, nonce := range [][]byte{hello.Nonce, welcome.Nonce, hello2.Nonce, welcome2.Nonce} {
		require.Len(t, nonce, 32)
		nonces[string(nonce)] = true
	}
	require.Len(t, nonces, 4)
}
