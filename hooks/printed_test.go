package hooks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// Every form of an error of a hook that has what the hook printed is known, whatever
// that is, and the rest of the text stays.
func TestWithoutOutput(t *testing.T) {
	code := -1
	printed := runtime.Output{Head: "CANARY: a\n post_claim hook \"b\" exited with code 3: CANARY"}
	ends := []Run{
		{State: Failed, Detail: Detail{ExitCode: &code}},
		{State: Failed, Detail: Detail{Signal: "SIGKILL"}},
		{State: TimedOut},
		{State: TimedOut, Detail: Detail{Timeout: float64(90 * time.Second / time.Millisecond)}},
		{State: TimedOut, Detail: Detail{Timeout: 0.25}}, // 250µs
		{State: Lost},
		{State: Lost, Error: "exited"},
	}
	for _, run := range ends {
		for _, name := range []string{"a", "post_claim[0]", `a "b": \`, "exited with code 3: x"} {
			for attempt := range 2 {
				run.Point, run.Hook, run.Attempt = PostClaim, name, attempt+1
				plain := "claim failed: " + (&Error{Run: run}).Error()
				run.Stderr = printed
				require.Equal(t, plain, WithoutOutput("claim failed: "+(&Error{Run: run}).Error()))
				run.Stderr = runtime.Output{}
			}
		}
	}
	for _, other := range []string{"", "pool: no hook exited with code 3: x", "container is unhealthy: its check exited with code 7"} {
		require.Equal(t, other, WithoutOutput(other))
	}
}
