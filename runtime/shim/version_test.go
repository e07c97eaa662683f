package shim

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A program refuses a session of another version than its own and sends no
// proof to that server. The server learns the program's version.
func TestProgramRefusesOtherVersion(t *testing.T) {
	for _, version := range []int{Version - 1, Version + 1, 0, -1} {
		ours, theirs := net.Pipe()
		refused := make(chan error, 1)
		go func() { // ends with the handshake
			defer theirs.Close()
			_, err := ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a"})
			refused <- err
		}()
		require.NoError(t, WriteFrame(ours, KindHandshake, Handshake{Version: version, Nonce: newNonce()}))
		f, err := ReadFrame(ours, maxHandshakeReply)
		require.NoError(t, err)
		reply, err := Decode[HandshakeReply](f, KindHandshakeReply)
		require.NoError(t, err)
		require.Equal(t, Version, reply.Version)
		rest, _ := io.ReadAll(ours)
		require.Empty(t, rest, "version %d", version)
		require.ErrorIs(t, <-refused, errVersion, "version %d", version)
		ours.Close()
	}
}

// The server speaks the version in the engine's record. A reply with another
// version is tainted, although the peer holds the key, and the server sends no
// proof.
func TestVersionMismatchTaints(t *testing.T) {
	for _, version := range []int{Previous, Version} {
		for _, replyVersion := range []int{version - 1, version + 1} {
			ours, theirs := net.Pipe()
			left := make(chan []byte, 1)
			go func() { // ends with the stream
				f, _ := ReadFrame(theirs, MaxHandshake)
				hs, _ := Decode[Handshake](f, KindHandshake)
				assert.Equal(t, version, hs.Version)
				reply, _ := writeHandshake(theirs, KindHandshakeReply, HandshakeReply{Version: replyVersion, Nonce: newNonce(), BootID: "a"})
				go func() {
					_ = WriteFrame(theirs, KindProof, Proof{proof(DeriveKey(secret, "c"), Program, transcript(f.Body, reply))})
				}()
				rest, _ := io.ReadAll(theirs)
				left <- rest
			}()
			_, _, err := ServerHandshake(ours, DeriveKey(secret, "c"), version)
			ours.Close()
			require.ErrorIs(t, err, runtime.ErrTainted)
			require.ErrorContains(t, err, "version")
			require.Empty(t, <-left)
		}
	}
}

// A session of the previous version works like any other one.
func TestPreviousVersion(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { // ends with the handshake
		f, _ := ReadFrame(theirs, MaxHandshake)
		sent, _ := writeHandshake(theirs, KindHandshakeReply, HandshakeReply{Version: Previous, Nonce: newNonce(), BootID: "a"})
		key := DeriveKey(secret, "c")
		_ = WriteFrame(theirs, KindProof, Proof{proof(key, Program, transcript(f.Body, sent))})
		_ = verifyProof(theirs, key, Server, transcript(f.Body, sent))
	}()
	channel, reply, err := ServerHandshake(ours, DeriveKey(secret, "c"), Previous)
	require.NoError(t, err)
	require.Equal(t, Previous, newSessionConn(ours, channel, reply, nil, func() {}).version)
}

// A container with an unsupported version fails immediately. It is neither
// tainted nor treated as unresponsive.
func TestUnsupportedVersion(t *testing.T) {
	for _, cause := range []error{runtime.ErrNewer, runtime.ErrTooOld} {
		t.Run(fmt.Sprint("cause ", cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSession("c", Options{Secret: secret, CheckRunning: alwaysRunning, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
					return nil, 0, cause
				}})
				defer s.Close()
				for range 3 {
					start := time.Now()
					_, err := s.Exec(t.Context(), runtime.Command{Args: []string{"true"}, Timeout: time.Minute})
					require.ErrorIs(t, err, cause)
					require.ErrorIs(t, s.Restart(t.Context(), 1), cause)
					require.Zero(t, time.Since(start))
					require.NotErrorIs(t, err, runtime.ErrUnresponsive)
					<-time.After(2 * DefaultUnresponsiveTimeout)
				}
				require.NoError(t, s.responsiveness.check())
			})
		})
	}
}
