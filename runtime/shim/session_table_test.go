package shim

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A container has one session until it is removed. After Close no session can
// be opened.
func TestOneSessionPerContainer(t *testing.T) {
	var dialled []string
	errDial := errors.New("connection refused")
	all := NewSessions(Options{Secret: secret, Dial: func(_ context.Context, id string) (io.ReadWriteCloser, int, error) {
		dialled = append(dialled, id)
		return nil, 0, errDial
	}})
	first := all.Get("a")
	require.Same(t, first, all.Get("a"))
	require.NotSame(t, first, all.Get("b"))
	require.ErrorIs(t, first.Open(t.Context()), errDial)
	all.Remove("a")
	all.Remove("a")
	require.ErrorIs(t, first.Open(t.Context()), errDial, "an earlier reference returns the dial error")
	require.NotSame(t, first, all.Get("a"))

	other := all.Get("b")
	require.NoError(t, all.Close())
	for _, s := range []*Session{other, all.Get("b"), all.Get("c")} {
		require.ErrorIs(t, s.Open(t.Context()), runtime.ErrUnavailable)
	}
	require.Equal(t, []string{"a", "a"}, dialled)
}
