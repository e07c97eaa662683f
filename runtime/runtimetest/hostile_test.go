package runtimetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every part has attacks of every class, on each backend, and as many runs in a row
// as there are parts perform all of them.
func TestRotatingSample(t *testing.T) {
	table := attackTable(t)
	classes := map[string]bool{}
	for _, a := range table {
		classes[a.Class] = true
	}
	require.Greater(t, len(classes), 10)
	performed := map[string]bool{}
	for part := range attackParts {
		included := rotatingSample(table, part)
		of := map[string]bool{}
		count := 0
		for _, a := range table {
			if included[a.Name] {
				performed[a.Name], of[a.Class] = true, true
				count++
			}
		}
		require.Equal(t, classes, of, "the classes of part %d", part)
		require.Less(t, count, len(table)/5, "the attacks of part %d", part)
	}
	require.Len(t, performed, len(table))
}
