package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
)

// The help of lists names every state.
func TestHelpHasEveryState(t *testing.T) {
	var claims, containers []string
	for _, s := range claim.States() {
		claims = append(claims, string(s))
	}
	for _, s := range pool.States() {
		containers = append(containers, string(s))
	}
	for kind, states := range map[string][]string{"claims": claims, "containers": containers} {
		var out bytes.Buffer
		require.Zero(t, run(t.Context(), []string{"get", kind, "--help"}, nil, &out, &out))
		_, list, _ := strings.Cut(out.String(), "only those in these states: ")
		list, _, _ = strings.Cut(list, "\n")
		require.ElementsMatch(t, states, strings.Split(list, ", "), kind)
	}
}
