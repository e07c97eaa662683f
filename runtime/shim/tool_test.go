package shim

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// What the caller's reader failed with counts most, a broken stream least, and
// a broken stream is never a success.
func TestSendOutcome(t *testing.T) {
	theirs, ours, broke := &sourceError{errors.New("theirs")}, errors.New("ours"), errors.New("broke")
	require.NoError(t, sendOutcome(nil, nil, nil))
	require.ErrorIs(t, sendOutcome(ours, theirs, broke), theirs)
	require.ErrorIs(t, sendOutcome(ours, broke, broke), ours)
	require.ErrorIs(t, sendOutcome(nil, broke, nil), runtime.ErrUnavailable)
	require.ErrorIs(t, sendOutcome(nil, nil, broke), runtime.ErrUnavailable)
}

// tool is one that reads all of its stdin, prints something, and ends well as
// far as the engine knows.
type tool struct {
	io.Reader
	stderr string
}

func (tool) Write(p []byte) (int, error)              { return len(p), nil }
func (tool) CloseWrite() error                        { return nil }
func (tool) Close() error                             { return nil }
func (t tool) Result(context.Context) (string, error) { return t.stderr, nil }

// An archive is whole when both ends say so, and not because an engine took a
// connection that broke for an end.
func TestWhole(t *testing.T) {
	for stderr, want := range map[string]error{
		`{"bytes":5}` + "\n":             nil,
		"noise\n" + `{"bytes":5}` + "\n": nil,
		`{"bytes":6}`:                    runtime.ErrUnavailable,
		`{"bytes":4}`:                    runtime.ErrUnavailable,
		"noise":                          runtime.ErrUnavailable,
		"":                               runtime.ErrUnavailable,
	} {
		err := Send(t.Context(), tool{strings.NewReader(""), stderr}, strings.NewReader("12345"))
		require.ErrorIs(t, err, want, "Send: %q", stderr)
		archive, err := Receive(t.Context(), tool{strings.NewReader("12345"), stderr})
		require.NoError(t, err)
		got, err := io.ReadAll(archive)
		require.ErrorIs(t, err, want, "Receive: %q", stderr)
		require.Equal(t, "12345", string(got))
	}
}
