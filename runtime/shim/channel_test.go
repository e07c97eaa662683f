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

// recorded is a stream whose other end is played back and that keeps what is
// written.
type recorded struct {
	io.Reader
	written bytes.Buffer
}

func (r *recorded) Write(p []byte) (int, error) { return r.written.Write(p) }

// ends are both ends of a channel over streams that a test may change.
func ends(t *testing.T) (server, program *Channel) {
	t.Helper()
	key := Key(secret, "c")
	ours, theirs := net.Pipe()
	done := make(chan *Channel, 1)
	go func() { // ends with the handshake
		c, _ := Accept(theirs, key, Welcome{Boot: "a"})
		done <- c
	}()
	server, welcome, err := Call(ours, key, Version)
	require.NoError(t, err)
	require.Equal(t, "a", welcome.Boot)
	program = <-done
	require.NotNil(t, program)
	return server, program
}

// frames are some that the server sends, as they cross the stream.
func frames(t *testing.T, server *Channel) (all [][]byte) {
	t.Helper()
	out := &recorded{}
	server.stream = out
	for _, word := range []string{"first secret", "second secret"} {
		require.NoError(t, server.Write(KindRequest, Request{Key: word}))
		all = append(all, bytes.Clone(out.written.Bytes()))
		out.written.Reset()
	}
	return all
}

// What arrives is what was sent, all of it, in order, and nobody between the
// ends could read it.
func TestChannel(t *testing.T) {
	t.Parallel()
	changed := func(f []byte, at int) []byte {
		c := bytes.Clone(f)
		c[at] ^= 1
		return c
	}
	for name, c := range map[string]struct {
		arrives func(f [][]byte) [][]byte
		whole   int // how many are read before it is noticed
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
			server, program := ends(t)
			sent := frames(t, server)
			require.NotContains(t, string(sent[0]), "secret")
			arrived := c.arrives(sent)
			program.stream = &recorded{Reader: bytes.NewReader(bytes.Join(arrived, nil))}
			for range c.whole {
				_, err := program.Read()
				require.NoError(t, err)
			}
			if c.whole < len(arrived) {
				_, err := program.Read()
				require.ErrorIs(t, err, ErrProtocol)
			}
		})
	}
}

// A frame is good in its own direction and session only.
func TestChannelKeysDiffer(t *testing.T) {
	t.Parallel()
	server, program := ends(t)
	other, _ := ends(t)
	sent := frames(t, server)
	for _, receiver := range []*Channel{server, other} {
		receiver.stream = &recorded{Reader: bytes.NewReader(sent[0])}
		_, err := receiver.Read()
		require.ErrorIs(t, err, ErrProtocol)
	}
	program.stream = &recorded{Reader: bytes.NewReader(sent[0])}
	_, err := program.Read()
	require.NoError(t, err)
}

// A program without the key is told nothing but a nonce, and is out of control;
// one that gives back what it was told is, too.
func TestUnprovenProgram(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(conn net.Conn){
		"another key": func(conn net.Conn) { _, _ = Accept(conn, Key(secret, "other"), Welcome{Boot: "a"}) },
		"a proof without a key": func(conn net.Conn) {
			_, _ = ReadFrame(conn, MaxHello)
			_ = WriteFrame(conn, KindWelcome, Welcome{Version: Version, Boot: "a"})
			_ = WriteFrame(conn, KindProof, Proof{})
		},
		"a fault without a proof": func(conn net.Conn) {
			_, _ = ReadFrame(conn, MaxHello)
			_ = WriteFrame(conn, KindWelcome, Welcome{Version: Version, Boot: "a",
				Fault: &Fault{Code: CodeStart, Reason: runtime.StartNoBinary}})
			_ = WriteFrame(conn, KindProof, Proof{MAC: make([]byte, 32)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted(t, func(p *peer) { play(p.conn) })
			err := s.Open(t.Context())
			require.ErrorIs(t, err, runtime.ErrDoomed)
			require.ErrorContains(t, err, "could not prove that it is our program")
		})
	}
}

// A server without the key is not let in, whatever it sends: neither the
// program's own proof, nor none.
func TestUnprovenServer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(mine Frame) any{
		"the program's own": func(mine Frame) any { return json.RawMessage(mine.Body) },
		"none":              func(Frame) any { return Proof{} },
	} {
		ours, theirs := net.Pipe()
		go func() { // ends with the handshake
			_, _ = greet(ours, KindHello, Hello{Version: Version, Nonce: newNonce()})
			_, _ = ReadFrame(ours, maxWelcome)
			mine, _ := ReadFrame(ours, MaxHello)
			_ = WriteFrame(ours, KindProof, answer(mine))
		}()
		_, err := Accept(theirs, Key(secret, "c"), Welcome{Boot: "a"})
		require.ErrorIs(t, err, errUnproven, name)
		require.ErrorIs(t, err, runtime.ErrDoomed, name)
		ours.Close()
		theirs.Close()
	}
}
