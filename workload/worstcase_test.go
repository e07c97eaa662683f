package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// The worst case of a point has every attempt of every hook, the time until it
// is killed, and the delays between attempts.
func TestWorstCase(t *testing.T) {
	for source, want := range map[string]time.Duration{
		"[]":                             0,
		"[{command: [a], timeout: 10s}]": 12 * time.Second,
		"[{script: a, timeout: 10s, grace: 0s}, {command: [b], enabled: false}]":                10 * time.Second,
		"[{command: [a], timeout: 10s, on_error: retry, retries: 2}]":                           3*12*time.Second + 3300*time.Millisecond,
		"[{http: {url: 'https://a.example'}, timeout: 10s, on_error: retry}]":                   80 * time.Second,
		"[{builtin: log, timeout: 1s, on_error: retry, retries: 5}, {command: [a], grace: 1s}]": 32 * time.Second,
		"[{command: [a], blocking: false, name: x, on_error: continue}]":                        0,
	} {
		w, err := Parse([]byte(fileWith("hooks: {post_claim: "+source+"}")), "")
		require.NoError(t, err)
		require.Equal(t, want, w.WorstCase(hooks.PostClaim), source)
	}
}
