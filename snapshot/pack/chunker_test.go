package pack

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Chunks add up to the content, are within the limits, and after a change in the
// middle most are the same. Another salt cuts elsewhere.
func TestChunker(t *testing.T) {
	t.Parallel()
	content := noise(20 << 20)
	cut := func(f *Format, content []byte) map[string]bool {
		c, err := NewChunker(f)
		require.NoError(t, err)
		chunks := map[string]bool{}
		for range 2 { // it can be used again
			c.Reset(bytes.NewReader(content))
			var all []byte
			for {
				chunk, err := c.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				require.LessOrEqual(t, len(chunk), MaxData)
				all = append(all, chunk...)
				require.True(t, len(chunk) >= minChunk || len(all) == len(content))
				chunks[string(chunk)] = true
			}
			require.True(t, bytes.Equal(content, all))
		}
		return chunks
	}
	f := formats()["plain"]
	before := cut(f, content)
	changed := slices.Concat(content[:10<<20], []byte("inserted"), content[10<<20:])
	fresh := 0
	for chunk := range cut(f, changed) {
		if !before[chunk] {
			fresh++
		}
	}
	require.Greater(t, len(before), 8)
	require.LessOrEqual(t, fresh, 3)
	same := 0
	for chunk := range cut(&Format{Salt: [32]byte{2}}, content) {
		if before[chunk] {
			same++
		}
	}
	require.LessOrEqual(t, same, 1)
	require.Empty(t, cut(f, nil))
}
