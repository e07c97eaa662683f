package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A test of hooks in a claim shows what each printed. A failed one is an exit
// status of its own.
func TestHooksTestLive(t *testing.T) {
	serveTestBackend(t)
	code, out, _ := hostler(t, "", "hooks", "test", "web", "post_claim", "--live", "claim-alice")
	require.Equal(t, exitHook, code)
	require.Equal(t, "hook init: failed in 3.5 ms (run run-test)\n  stderr no such file\n", out)
	code, out, _ = hostler(t, "", "hooks", "test", "web", "post_claim", "--live", "claim-alice", "-o", "json")
	require.Equal(t, exitHook, code)
	require.Contains(t, out, `"event": "test.post_claim"`)
}
