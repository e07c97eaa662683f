package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An attack that is named twice is performed once, and one that nobody can
// perform is none.
func TestTable(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	texts := make(map[string]bool)
	for _, a := range attacks() {
		require.False(t, names[a.Name], a.Name)
		require.False(t, texts[a.Text], a.Text)
		names[a.Name], texts[a.Text] = true, true
		require.NotNil(t, a.run, a.Name)
		require.NotEmpty(t, a.Class, a.Name)
		require.Contains(t, []string{"", "root", "other"}, a.User, a.Name)
	}
	require.GreaterOrEqual(t, len(names), 80)
}

// A process that an attack names is one that there is.
func TestChildren(t *testing.T) {
	t.Parallel()
	for name, f := range children() {
		require.NotNil(t, f, name)
	}
}
