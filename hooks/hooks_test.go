package hooks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// The error of a point has the hook, the reason, and an excerpt of its stderr.
func TestErrorText(t *testing.T) {
	code := 3
	tests := []struct {
		run  Run
		want string
	}{
		{Run{Point: PostClaim, Hook: "a", Attempt: 1, State: Failed, Detail: Detail{ExitCode: &code}, Stderr: runtime.Output{Head: "no table"}}, `post_claim hook "a" exited with code 3: no table`},
		{Run{Point: PostClaim, Hook: "a", Attempt: 2, State: TimedOut, Detail: Detail{TimedOut: true, Timeout: 30}}, `post_claim hook "a" (attempt 2) ran longer than its timeout of 30ms and was terminated`},
		{Run{Point: PreDestroy, Hook: "a", Attempt: 1, State: Lost, Error: "exited"}, `pre_destroy hook "a": exited`},
		{Run{Point: PreDestroy, Hook: "a", Attempt: 1, State: Failed, Detail: Detail{Signal: "SIGKILL"}}, `pre_destroy hook "a" was terminated by SIGKILL`},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, (&Error{Run: tt.run}).Error())
	}
}

// The limits and defaults are promises to authors of files.
func TestDefaults(t *testing.T) {
	require.Equal(t, []time.Duration{30 * time.Second, 10 * time.Second, 5 * time.Second, 10 * time.Minute, 2 * time.Minute},
		[]time.Duration{DefaultTimeout, DefaultRequestTimeout, DefaultWaitTimeout, MaxTimeout, MaxRequestTimeout})
	require.Equal(t, []int{1, 5, 15, 25}, []int{DefaultRetries, MaxRetries, DefaultEventRetries, MaxEventRetries})
}

// Every point of the table is valid and documented.
func TestPoints(t *testing.T) {
	require.Len(t, Points(), 9)
	for _, r := range Points() {
		require.True(t, r.Point.IsValid())
		require.NotEmpty(t, r.Doc)
	}
	require.False(t, Point("post_clam").IsValid())
}

// Gates have names of their own, which are those of no point.
func TestGates(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Gates() {
		require.Equal(t, r, r.Gate.Rule())
		require.NotEmpty(t, r.Doc)
		for _, name := range append([]string{string(r.Gate)}, r.Aliases...) {
			require.False(t, seen[name], name)
			seen[name] = true
			g, ok := GateNamed(name)
			require.True(t, ok)
			require.Equal(t, r.Gate, g)
			require.False(t, Point(name).IsValid())
			_, isEvent := EventAliasOf(name)
			require.False(t, isEvent, name)
		}
	}
	require.Len(t, seen, 7)
	_, ok := GateNamed("exec.after")
	require.False(t, ok)
	require.Empty(t, Gate("exec.after").Rule())
}
