package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only headers that every receiver accepts reach hooks.
func TestValidTraceparent(t *testing.T) {
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	require.Len(t, valid, 55)
	for header, ok := range map[string]bool{
		valid: true, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff": true,
		"": false, strings.ToUpper(valid): false, valid + "-00": false, valid + " ": false, valid + "\n": false,
		"01" + valid[2:]: false, "ff" + valid[2:]: false, valid[1:]: false, strings.ReplaceAll(valid, "-", "_"): false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01": false,
	} {
		want := ""
		if ok {
			want = header
		}
		require.Equal(t, want, validTraceparent(header), "%q", header)
	}
}
