package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A watch does not ask the server in a loop without a pause.
func TestWatchIntervalIsBounded(t *testing.T) {
	for _, short := range []string{"10ms", "99ms", "0s", "-1s"} {
		var out, errOut bytes.Buffer
		code := run(t.Context(), []string{"get", "claims", "-w", "--interval", short, "--server", "http://127.0.0.1:1"}, strings.NewReader(""), &out, &errOut)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errOut.String(), "--interval is at least 100ms, not "+short)
	}
}
