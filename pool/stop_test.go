package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// slowToStop is a workload whose main process uses its whole grace period.
const slowToStop = `
id: w
image: box
command: [box, ignore-term]
stop_grace_period: 10m
pool: { min_idle: 40, max_size: 40 }
`

// Containers in their grace period do not block others, of the same workload or
// another, and are removed in one attempt when it ends.
func TestSlowStopsDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(slowToStop)
		h.Apply(flowtest.Edit(basicYAML, "id: w", "id: v"))
		h.AwaitIdle("w", 40)
		h.AwaitIdle("v", 2)
		start := time.Now()
		for _, id := range []string{"w", "v"} {
			_, err := h.Pools.Drain(t.Context(), id)
			require.NoError(t, err)
		}
		h.Until("the removal of the others", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 2 })
		require.Less(t, time.Since(start), time.Second)
		require.Equal(t, 40, h.Count("w", pool.Destroying), "they are in their grace period and use stop slots")
		h.Until("the removal of all", func() bool { return h.Count("w", pool.Destroying) == 0 })
		require.InDelta(t, 10*time.Minute, time.Since(start), float64(time.Second))
		tries := 0
		for _, call := range h.RT.Calls() {
			if strings.HasPrefix(call, "destroy ") {
				tries++
			}
		}
		require.Equal(t, 42, tries)
	})
}

// The grace period begins when the hooks have ended, and ends early if the main
// process exits.
func TestStopAfterPreDestroy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\nstop_grace_period: 1m\n" +
			"hooks: { pre_destroy: [{ command: [box, hang], timeout: 5m }] }\n")
		h.AwaitIdle("w", 1)
		start := time.Now()
		_, err := h.Pools.Drain(t.Context(), "w")
		require.NoError(t, err)
		h.AwaitIdle("w", 0)
		h.Until("its removal", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		require.InDelta(t, time.Minute, time.Since(start), float64(time.Second), "stop_grace_period also limits the hooks")
		require.Len(t, h.Events(activity.HookFailed), 1)
	})
}

// A workload that needs a feature that the backend does not support is rejected
// when it is applied, with the field. It is also rejected if the backend is
// unavailable.
func TestApplyChecksRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		source := []byte(basicYAML + "runtime: kata\n")
		specErr := &runtime.SpecError{Field: "runtime", Reason: "is not there", Hint: "leave it out"}
		for _, answer := range []error{specErr, runtime.ErrUnavailable} {
			h.RT.BreakOnce("check", answer)
			_, err := h.Pools.Apply(t.Context(), source, "w.yaml", "")
			if invalid, ok := errors.AsType[workload.ValidationErrors](err); ok {
				require.Equal(t, fmt.Sprintf("w.yaml:%d:10: runtime: is not there (leave it out)", strings.Count(basicYAML, "\n")+1), invalid.Error())
			} else {
				require.ErrorIs(t, err, runtime.ErrUnavailable)
			}
			require.Error(t, err)
		}
		_, err := h.Pools.Apply(t.Context(), source, "w.yaml", "")
		require.NoError(t, err)
		h.Apply(basicYAML)

		h.RT.BreakOnce("check", &runtime.SpecError{Field: "limits", Reason: "are not enforced", Hint: "leave them out"})
		_, err = h.Pools.Apply(t.Context(), []byte(basicYAML+"hooks: { post_claim: [{ name: a, script: exit 0, limits: { output: 1k } }] }\n"), "w.yaml", "")
		require.ErrorContains(t, err, "limits: are not enforced", "limits of hooks")
	})
}
