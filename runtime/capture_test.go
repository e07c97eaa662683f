package runtime

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const maxKeptOutput = OutputHead + OutputTail

// The kept output does not depend on how the stream was split into writes.
func TestCapture(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	for i := 0; stream.Len() < 2*maxKeptOutput+100; i++ {
		stream.WriteString(strings.Repeat(string(rune('a'+i%26)), 1+i%97))
	}
	for _, n := range []int{0, 1, OutputHead - 1, OutputHead, OutputHead + 1, maxKeptOutput, maxKeptOutput + 1, 2*maxKeptOutput + 100} {
		for _, piece := range []int{1, 7, 1000, OutputTail, 1 << 20} {
			var c Capture
			for rest := stream.Bytes()[:n]; len(rest) > 0; {
				size := min(piece, len(rest))
				written, err := c.Write(rest[:size])
				require.NoError(t, err)
				require.Equal(t, size, written)
				rest = rest[size:]
			}
			out := c.Output()
			whole := stream.String()[:n]
			require.Equal(t, int64(n), out.Total)
			require.Equal(t, n > maxKeptOutput, out.Truncated, "%d in pieces of %d", n, piece)
			require.True(t, strings.HasPrefix(whole, out.Head))
			require.True(t, strings.HasSuffix(whole, out.Tail), "%d in pieces of %d", n, piece)
			if n <= maxKeptOutput {
				require.Equal(t, whole, out.String())
			}
		}
	}
}

// A character is never split, wherever the output is truncated.
func TestCaptureKeepsRunesWhole(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"é", "€", "😀"} {
		for shift := range 4 {
			for _, n := range []int{OutputHead, 3 * maxKeptOutput} {
				var c Capture
				_, _ = c.Write([]byte(strings.Repeat("x", shift) + strings.Repeat(r, n/len(r)+1)))
				out := c.Output()
				require.NotContains(t, out.Head+out.Tail, string(utf8.RuneError))
				require.Empty(t, strings.Trim(strings.TrimLeft(out.Head, "x"), r))
				require.Empty(t, strings.Trim(out.Tail, r))
			}
		}
	}
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte("a\x00b\xff"), 5000)
	f.Add([]byte("€"), maxKeptOutput)
	f.Fuzz(func(t *testing.T, piece []byte, times int) {
		var c Capture
		for range min(max(times, 0), 1000) {
			_, _ = c.Write(piece)
		}
		out := c.Output()
		require.True(t, utf8.ValidString(out.Head) && utf8.ValidString(out.Tail))
		require.NotContains(t, out.Head+out.Tail, "\x00")
	})
}
