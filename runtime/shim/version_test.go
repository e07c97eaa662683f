package shim

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A program refuses a session of another version than its own, and proves
// nothing to a server that asks for one. The server learns which it speaks.
func TestProgramRefusesAnotherVersion(t *testing.T) {
	for _, version := range []int{Version - 1, Version + 1, 0, -1} {
		ours, theirs := net.Pipe()
		refused := make(chan error, 1)
		go func() { // ends with the handshake
			defer theirs.Close()
			_, err := Accept(theirs, Key(secret, "c"), Welcome{Boot: "a"})
			refused <- err
		}()
		require.NoError(t, WriteFrame(ours, KindHello, Hello{Version: version, Nonce: newNonce()}))
		f, err := ReadFrame(ours, maxWelcome)
		require.NoError(t, err)
		welcome, err := Decode[Welcome](f, KindWelcome)
		require.NoError(t, err)
		require.Equal(t, Version, welcome.Version)
		rest, _ := io.ReadAll(ours)
		require.Empty(t, rest, "version %d", version)
		require.ErrorIs(t, <-refused, errVersion, "version %d", version)
		ours.Close()
	}
}

// What the engine's record says is what the server speaks: an answer with
// another version is tainted, although the peer holds the key, and the
// server proves nothing to it.
func TestAnotherVersionThanTheRecord(t *testing.T) {
	for _, version := range []int{Previous, Version} {
		for _, answer := range []int{version - 1, version + 1} {
			ours, theirs := net.Pipe()
			left := make(chan []byte, 1)
			go func() { // ends with the stream
				f, _ := ReadFrame(theirs, MaxHello)
				hello, _ := Decode[Hello](f, KindHello)
				require.Equal(t, version, hello.Version)
				said, _ := greet(theirs, KindWelcome, Welcome{Version: answer, Nonce: newNonce(), Boot: "a"})
				go func() {
					_ = WriteFrame(theirs, KindProof, Proof{proof(Key(secret, "c"), Program, transcript(f.Body, said))})
				}()
				rest, _ := io.ReadAll(theirs)
				left <- rest
			}()
			_, _, err := Call(ours, Key(secret, "c"), version)
			ours.Close()
			require.ErrorIs(t, err, runtime.ErrDoomed)
			require.ErrorContains(t, err, "version")
			require.Empty(t, <-left)
		}
	}
}

// A session of the version before is one as any other.
func TestPreviousVersion(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { // ends with the handshake
		f, _ := ReadFrame(theirs, MaxHello)
		said, _ := greet(theirs, KindWelcome, Welcome{Version: Previous, Nonce: newNonce(), Boot: "a"})
		key := Key(secret, "c")
		_ = WriteFrame(theirs, KindProof, Proof{proof(key, Program, transcript(f.Body, said))})
		_ = checkProof(theirs, key, Server, transcript(f.Body, said))
	}()
	channel, welcome, err := Call(ours, Key(secret, "c"), Previous)
	require.NoError(t, err)
	require.Equal(t, Previous, newLink(ours, channel, welcome, func() {}).version)
}

// A container whose version is not spoken is told at once, is not tainted for
// it, and is not taken for one that does not answer.
func TestUnspokenVersion(t *testing.T) {
	for _, cause := range []error{runtime.ErrNewer, runtime.ErrTooOld} {
		synctest.Test(t, func(t *testing.T) {
			s := newSession("c", Options{Secret: secret, Running: runs, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
				return nil, 0, cause
			}})
			defer s.Close()
			for range 3 {
				begun := time.Now()
				_, err := s.Exec(t.Context(), runtime.Command{Args: []string{"true"}, Timeout: time.Minute})
				require.ErrorIs(t, err, cause)
				require.ErrorIs(t, s.Restart(t.Context(), 1), cause)
				require.Zero(t, time.Since(begun))
				require.NotErrorIs(t, err, runtime.ErrUnresponsive)
				<-time.After(2 * DefaultUnresponsiveTimeout)
			}
			require.NoError(t, s.silence.err())
		})
	}
}
