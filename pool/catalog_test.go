package pool

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// largeWorkloads has another source each time.
type largeWorkloads struct {
	catalogStore
	reads int
}

func (s *largeWorkloads) Workload(_ context.Context, id string) (Record, error) {
	s.reads++
	source := fmt.Sprintf("id: %s\nimage: box\n# %d %s\n", id, s.reads, strings.Repeat("x", 1<<19))
	return Record{ID: id, Revision: "r", Source: []byte(source)}, nil
}

// Who applies large files again and again does not fill the memory: what is cached is
// bounded in bytes, and what was applied before is removed.
func TestCatalogIsBounded(t *testing.T) {
	c := NewCatalog(&largeWorkloads{})
	for i := range 100 {
		_, _, err := c.Current(t.Context(), fmt.Sprint("w", i%10))
		require.NoError(t, err)
		require.LessOrEqual(t, len(c.parsed), maxCachedSize>>19)
		size := 0
		for _, entry := range c.parsed {
			size += entry.size
		}
		require.Equal(t, size, c.size)
	}
	for i := range 10 {
		c.Invalidate(fmt.Sprint("w", i))
	}
	require.Empty(t, c.parsed)
	require.Zero(t, c.size)
}
