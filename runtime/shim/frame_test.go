package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// A frame arrives unchanged, whatever it contains.
func TestFrameRoundTrip(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	want := Request{ID: 7, Op: OpRun, Run: &Run{RunID: "k", Args: []string{"a", ""}, Stdin: []byte{0, 255}}}
	require.NoError(t, WriteFrame(&b, KindRequest, want))
	f, err := ReadFrame(&b, MaxFrame)
	require.NoError(t, err)
	got, err := Decode[Request](f, KindRequest)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = ReadFrame(&b, MaxFrame)
	require.ErrorIs(t, err, io.EOF, "end between two frames")
}

// A malformed frame ends a session with an error and causes no allocation.
func TestReadFrameRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		bytes string
		want  error
	}{
		"empty":       {"", io.EOF},
		"half header": {"\x00\x00", io.ErrUnexpectedEOF},
		"half body":   {"\x00\x00\x00\x05Hab", io.ErrUnexpectedEOF},
		"no body":     {"\x00\x00\x00\x05H", io.ErrUnexpectedEOF},
		"too large":   {"\x00\x40\x00\x01H", ErrProtocol},
		"huge":        {"\xff\xff\xff\xffH", ErrProtocol},
	}
	for name, c := range cases {
		_, err := ReadFrame(strings.NewReader(c.bytes), MaxFrame)
		require.ErrorIs(t, err, c.want, name)
	}
	_, err := Decode[Handshake](Frame{Kind: KindResponse, Body: []byte("{}")}, KindHandshake)
	require.ErrorIs(t, err, ErrProtocol, "another kind")
	_, err = Decode[Handshake](Frame{Kind: KindHandshake, Body: []byte("[")}, KindHandshake)
	require.ErrorIs(t, err, ErrProtocol, "no JSON")
	require.ErrorIs(t, WriteFrame(io.Discard, KindRequest, strings.Repeat("x", MaxFrame)), ErrProtocol)
}

// Every error of the contract arrives at the other end as the same error.
func TestWireErrors(t *testing.T) {
	t.Parallel()
	for _, want := range []error{
		runtime.ErrNotRunning, runtime.ErrContainerExited, runtime.ErrTainted, runtime.ErrWipeUnverified,
		runtime.ErrUnavailable, runtime.ErrBadArchive, runtime.ErrFileNotFound,
	} {
		line, err := json.Marshal(NewWireError(want))
		require.NoError(t, err)
		require.ErrorIs(t, ToolError(1, "some noise\n"+string(line)+"\n"), want)
	}
	start := &runtime.StartError{Reason: runtime.StartUserNotFound, Detail: "no user"}
	require.Equal(t, start, NewWireError(start).Err())
	require.NoError(t, ToolError(0, "noise"))
	require.ErrorContains(t, ToolError(2, "usage: ..."), "code 2")
	require.ErrorContains(t, NewWireError(errors.New("odd")).Err(), "odd")
}

func TestConfigRoundTrip(t *testing.T) {
	t.Parallel()
	_, err := Config{}.Env()
	require.Error(t, err, "no argv")
	env, err := Config{Args: []string{"/x"}, Key: DeriveKey(secret, "t")}.Env()
	require.NoError(t, err)
	c, err := ParseConfig(env)
	require.NoError(t, err)
	require.Equal(t, "/", c.Root)
	require.Empty(t, c.Socket)
	for _, bad := range []string{"", "{", "{}", `{"args":["x"]}`} {
		_, err := ParseConfig(bad)
		require.Error(t, err, bad)
	}
}

// A key depends on the container and on the secret.
func TestDeriveKey(t *testing.T) {
	t.Parallel()
	a := DeriveKey([]byte("secret"), "a")
	require.Equal(t, a, DeriveKey([]byte("secret"), "a"))
	require.NotEqual(t, a, DeriveKey([]byte("secret"), "b"))
	require.NotEqual(t, a, DeriveKey([]byte("other"), "a"))
}

// Whatever bytes arrive, reading ends, and a frame that was read is written as
// the same bytes.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02H{}"))
	f.Add([]byte("\x00\x00\x00\x0dA{\"id\":1}     \xff"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			frame, err := ReadFrame(r, MaxHandshake)
			if err != nil {
				return
			}
			require.LessOrEqual(t, len(frame.Body), MaxHandshake)
		}
	})
}

// Messages decode to themselves or to an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"token":"x"}`))
	f.Add([]byte(`{"id":1,"op":"run","run":{"key":"k","args":["a"],"timeout":1}}`))
	f.Add([]byte(`{"id":1,"result":{"ExitCode":3},"error":{"code":"start"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		requireRoundTrip(t, b, KindHandshake, Handshake{})
		requireRoundTrip(t, b, KindHandshakeReply, HandshakeReply{})
		requireRoundTrip(t, b, KindRequest, Request{})
		requireRoundTrip(t, b, KindProgress, Progress{})
		requireRoundTrip(t, b, KindResponse, Response{})
	})
}

func requireRoundTrip[T any](t *testing.T, b []byte, kind Kind, _ T) {
	t.Helper()
	message, err := Decode[T](Frame{Kind: kind, Body: b}, kind)
	if err != nil {
		require.ErrorIs(t, err, ErrProtocol)
		return
	}
	var wire bytes.Buffer
	if WriteFrame(&wire, kind, message) != nil {
		return // larger than a frame allows
	}
	frame, err := ReadFrame(&wire, MaxFrame)
	require.NoError(t, err)
	_, err = Decode[T](frame, kind)
	require.NoError(t, err)
}
