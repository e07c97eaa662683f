package cloud

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// cutAfter returns n bytes of a text and then an error.
func cutAfter(text string, n int, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(err)))
}

// The rest of a range whose connection ended is asked for again, some times. Another
// error is not.
func TestCutRangesAreResumed(t *testing.T) {
	t.Parallel()
	const text = "0123456789"
	other := errors.New("denied")
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset")}
	for name, c := range map[string]struct {
		cut   error
		parts []int // bytes of each answer
		want  string
		asked int
	}{
		"whole":        {errCut, []int{10}, text, 1},
		"cut":          {errCut, []int{4, 6}, text, 2},
		"reset":        {reset, []int{4, 0, 6}, text, 3},
		"three times":  {errCut, []int{1, 1, 1, 7}, text, 4},
		"too often":    {errCut, []int{1, 1, 1, 1, 6}, text[:4], 4},
		"denied":       {other, []int{4, 6}, text[:4], 1},
		"not answered": {errCut, []int{4}, text[:4], 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			open := func(offset, size int64) (io.ReadCloser, error) {
				require.Equal(t, int64(len(text)+5), offset+size)
				if asked++; asked > len(c.parts) {
					return nil, other
				}
				return cutAfter(text[offset-5:], c.parts[asked-1], c.cut), nil
			}
			first, err := open(5, int64(len(text)))
			require.NoError(t, err)
			r := &resumedReader{ctx: t.Context(), open: open, from: first, offset: 5, left: int64(len(text))}
			got := make([]byte, len(text))
			n, err := io.ReadFull(r, got)
			require.Equal(t, c.want, string(got[:n]))
			require.Equal(t, c.asked, asked)
			if c.want != text {
				require.Error(t, err)
				require.NotErrorIs(t, err, io.ErrUnexpectedEOF, "it is not the object that is short")
			}
			require.NoError(t, r.Close())
		})
	}
}

// A reader whose context has ended asks for nothing.
func TestEndedRangesAreNotResumed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &resumedReader{ctx: ctx, from: cutAfter("", 0, errCut), left: 1, open: func(int64, int64) (io.ReadCloser, error) {
		t.Error("it was asked for")
		return nil, errCut
	}}
	_, err := r.Read(make([]byte, 1))
	require.ErrorIs(t, err, errCut)
}
