package shim

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A container has one session, until it is forgotten; after Close there is none
// that could be opened.
func TestSessions(t *testing.T) {
	var dialled []string
	nobody := errors.New("nobody is there")
	all := NewSessions(Options{Secret: secret, Dial: func(_ context.Context, id string) (io.ReadWriteCloser, int, error) {
		dialled = append(dialled, id)
		return nil, 0, nobody
	}})
	first := all.With("a")
	require.Same(t, first, all.With("a"))
	require.NotSame(t, first, all.With("b"))
	require.ErrorIs(t, first.Open(t.Context()), nobody)
	all.Forget("a")
	all.Forget("a")
	require.ErrorIs(t, first.Open(t.Context()), nobody, "who has it still learns why")
	require.NotSame(t, first, all.With("a"))

	other := all.With("b")
	require.NoError(t, all.Close())
	for _, s := range []*Session{other, all.With("b"), all.With("c")} {
		require.ErrorIs(t, s.Open(t.Context()), runtime.ErrUnavailable)
	}
	require.Equal(t, []string{"a", "a"}, dialled)
}
