package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
)

// --wait 0 is no wait, which leaving it out is not.
func TestClaimWithoutWait(t *testing.T) {
	b := serveTestBackend(t)
	for _, tt := range []struct {
		args   []string
		noWait bool
	}{{nil, false}, {[]string{"--wait", "0"}, true}, {[]string{"--wait", "7s"}, false}} {
		code, out, errOut := hostler(t, "", append([]string{"claim", "web", "--tenant", "alice"}, tt.args...)...)
		require.Zero(t, code, "%s%s", out, errOut)
		r, ok := b.Requests[len(b.Requests)-1].(claim.Request)
		require.True(t, ok)
		require.Equal(t, tt.noWait, r.NoWait, "%v", tt.args)
	}
}
