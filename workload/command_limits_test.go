package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// The backend is asked for every limit that a hook has, of points and of events.
func TestCommandLimits(t *testing.T) {
	limited := func(l hooks.ProcessLimits) hooks.Process { return hooks.Process{Limits: l} }
	w := &Workload{
		Hooks: map[hooks.Point][]hooks.Hook{
			hooks.PostClaim: {
				{Action: hooks.Command{Process: limited(hooks.ProcessLimits{CPUTime: time.Second})}},
				{Action: hooks.Script{Process: limited(hooks.ProcessLimits{CPUTime: time.Minute, Memory: 1})}},
			},
			hooks.PreRelease: {{Action: hooks.Request{}}, {Action: hooks.Command{Process: limited(hooks.ProcessLimits{FileSize: 2})}}},
		},
		EventHooks: []hooks.EventHook{{Hook: hooks.Hook{Action: hooks.Script{Process: limited(hooks.ProcessLimits{Output: 3})}}}},
	}
	require.Equal(t, runtime.ProcessLimits{CPUTime: time.Minute, Memory: 1, FileSize: 2, Output: 3}, w.Spec("c").CommandLimits)
	require.Zero(t, (&Workload{}).Spec("c").CommandLimits)
}
