package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each verb and thing is an operation, and no word for another operation is unused.
func TestVerbs(t *testing.T) {
	used := map[string]bool{}
	for _, row := range verbs {
		for thing := range strings.FieldsSeq(row.things) {
			id, ok := OperationOf(row.verb, thing)
			require.True(t, ok)
			require.Contains(t, rules, id, row.verb+" "+thing)
			used[row.verb+" "+thing] = true
		}
	}
	for words := range operationsOf {
		require.True(t, used[words], words)
	}
	for _, words := range [][3]string{
		{"list", "deliveries", "list-deliveries"}, {"list", "delivery", "list-deliveries"}, {"list", "memory", "list-memory"},
		{"create", "claims", "claim"}, {"get", "metrics", "metrics"}, {"revoke", "key", "revoke-key"},
	} {
		id, ok := OperationOf(words[0], words[1])
		require.True(t, ok, words)
		require.Equal(t, words[2], id)
	}
	_, ok := OperationOf("list", "")
	require.False(t, ok)
}
