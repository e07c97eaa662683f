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
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// slowToStop is a workload whose main process uses its time to the end.
const slowToStop = `
id: w
image: box
command: [box, ignore-term]
stop_grace_period: 10m
pool: { min_idle: 40, max_size: 40 }
`

// Containers that use their time to end hold up no others, of their own
// workload or of another one, and are removed in one try when it is over.
func TestGracePeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(slowToStop)
		y.Apply(strings.Replace(plain, "id: w", "id: v", 1))
		y.Idle("w", 40)
		y.Idle("v", 2)
		begin := time.Now()
		for _, id := range []string{"w", "v"} {
			_, err := y.Pools.Drain(t.Context(), id)
			require.NoError(t, err)
		}
		y.Until("the others to be gone", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 2 })
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, 40, y.Count("w", pool.Destroying), "they have their time, and their places")
		y.Until("all to be gone", func() bool { return y.Count("w", pool.Destroying) == 0 })
		require.InDelta(t, 10*time.Minute, time.Since(begin), float64(time.Second))
		tries := 0
		for _, call := range y.RT.Calls() {
			if strings.HasPrefix(call, "destroy ") {
				tries++
			}
		}
		require.Equal(t, 42, tries)
	})
}

// The time to end begins when the hooks have ended, and a main process that
// ends sooner is waited for no longer.
func TestStopAfterPreDestroy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply("id: w\nimage: box\ncommand: [box, idle]\nstop_grace_period: 1m\n" +
			"hooks: { pre_destroy: [{ command: [box, hang], timeout: 5m }] }\n")
		y.Idle("w", 1)
		begin := time.Now()
		_, err := y.Pools.Drain(t.Context(), "w")
		require.NoError(t, err)
		y.Idle("w", 0)
		y.Until("it to be gone", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
		require.InDelta(t, time.Minute, time.Since(begin), float64(time.Second), "the file bounds its hooks too")
		require.Len(t, y.Events(activity.HookFailed), 1)
	})
}

// A workload that asks for what the backend cannot do is refused when it is
// applied, with the field; a backend that does not answer is no consent.
func TestApplyChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		source := []byte(plain + "runtime: kata\n")
		cannot := &runtime.SpecError{Field: "runtime", Reason: "is not there", Remedy: "leave it out"}
		for _, answer := range []error{cannot, runtime.ErrUnavailable} {
			y.RT.BreakOnce("check", answer)
			_, err := y.Pools.Apply(t.Context(), source, "w.yaml", "")
			if faults, ok := errors.AsType[workload.Faults](err); ok {
				require.Equal(t, fmt.Sprintf("w.yaml:%d:10: runtime: is not there (leave it out)", strings.Count(plain, "\n")+1), faults.Error())
			} else {
				require.ErrorIs(t, err, runtime.ErrUnavailable)
			}
			require.Error(t, err)
		}
		_, err := y.Pools.Apply(t.Context(), source, "w.yaml", "")
		require.NoError(t, err)
		y.Apply(plain)
	})
}
