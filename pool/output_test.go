package pool_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// printing is a workload whose main process prints text.
const printing = "id: w\nimage: box\ncommand: [printer]\npool: { min_idle: 1, max_size: 1 }\n"

// containers lists the containers that exist.
func containers(t *testing.T, h *flowtest.Harness) []pool.Container {
	t.Helper()
	all, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{})
	require.NoError(t, err)
	return all
}

// newPrinter returns a harness whose main processes print text.
func newPrinter(t *testing.T, text string) *flowtest.Harness {
	h := flowtest.New(t)
	h.RT.AddProgram("printer", func(_ context.Context, p *fake.Proc) int {
		io.WriteString(p.Stdout, text) //nolint:errcheck // it is a log in memory
		return fake.Park
	})
	return h
}

// keptLog returns what Logs returns of a container.
func keptLog(t *testing.T, h *flowtest.Harness, id string) string {
	t.Helper()
	logs, err := h.Pools.Logs(t.Context(), id, 1<<20)
	require.NoError(t, err)
	text, err := io.ReadAll(logs)
	require.NoError(t, err)
	return string(text)
}

// lastDestroyed returns the container that was destroyed last.
func lastDestroyed(t *testing.T, h *flowtest.Harness) pool.Container {
	t.Helper()
	h.Until("a container to be destroyed", func() bool { return len(h.Events(activity.ContainerDestroyed)) > 0 })
	gone, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Destroyed}})
	require.NoError(t, err)
	return gone[len(gone)-1]
}

// What the main process of an idle container printed before it died is kept when the
// container is gone, and its last lines are in the reason, without what controls a
// terminal.
func TestOutputOfDeadContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "starting\n\x1b[31mno config\x1b[0m found\n")
		h.Apply(printing)
		h.AwaitIdle("w", 1)
		h.RT.Kill(containers(t, h)[0].ID)
		c := lastDestroyed(t, h)
		require.Equal(t, pool.OutputKept, c.Output)
		require.Equal(t, "its main process exited with code 137; last output: starting | [31mno config [0m found", c.Reason)
		require.Equal(t, "starting\n\x1b[31mno config\x1b[0m found\n", keptLog(t, h, c.ID))
		died := h.Events(activity.ContainerDied)
		require.Len(t, died, 1)
		require.Contains(t, string(died[0].Data), `no config`)

		h.AwaitIdle("w", 1) // its replacement dies as early: creation fails
		replacement := containers(t, h)
		h.RT.Kill(replacement[len(replacement)-1].ID)
		h.Until("a failure", func() bool { return len(h.Events(activity.PoolWarning)) == 1 })
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, c.Reason, status.Fill.LastError)
		require.Equal(t, replacement[len(replacement)-1].ID, status.Fill.LastContainer)
	})
}

// A container that ended without a failure has no output when it is gone.
func TestNoOutputWithoutFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "hello\n")
		h.Apply(printing)
		h.AwaitIdle("w", 1)
		id := containers(t, h)[0].ID
		require.Equal(t, "hello\n", keptLog(t, h, id))
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), id, false))
		require.Equal(t, pool.NoOutput, lastDestroyed(t, h).Output)
		_, err := h.Pools.Logs(t.Context(), id, 1<<20)
		require.ErrorIs(t, err, pool.ErrNoOutput)
	})
}

// What a tenant's program printed is kept, and is neither in the reason nor in a
// message, which others may read. The first reason stays when the claim ends.
func TestOutputOfTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "the tenant's secret\n")
		h.Apply(printing)
		c := h.Claim("w", "ada")
		h.RT.Kill(c.Container)
		h.Until("the exit to be recorded", func() bool { return len(h.Events(activity.ContainerDied)) == 1 })
		const reason = "its main process exited with code 137"
		dead, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, reason, dead.Reason)
		require.Equal(t, "container exited: "+reason, h.Events(activity.ContainerDied)[0].Message)
		h.Release(c)
		gone := lastDestroyed(t, h)
		require.Equal(t, reason, gone.Reason)
		require.Equal(t, "the tenant's secret\n", keptLog(t, h, gone.ID))
	})
}

// The output of a container whose creation failed is kept: at the failure, or, if the
// engine does not return it then, before the container is removed. A container whose
// output cannot be read at all is removed nevertheless.
func TestOutputOfFailedCreation(t *testing.T) {
	for name, test := range map[string]struct {
		failures int // of Logs
		output   pool.OutputState
		reason   string
	}{
		"at the failure":     {0, pool.OutputKept, "the hooks of the image are broken; last output: no config found"},
		"before the removal": {1, pool.OutputKept, "the hooks of the image are broken"},
		"not at all":         {2, pool.NoOutput, "the hooks of the image are broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newPrinter(t, "no config found\n")
				h.RT.BreakOnce("image_hooks", errors.New("the hooks of the image are broken"))
				for range test.failures {
					h.RT.BreakOnce("logs", runtime.ErrUnavailable)
				}
				h.Apply(printing + "image_hooks: true\n")
				c := lastDestroyed(t, h)
				require.Equal(t, test.output, c.Output)
				require.Equal(t, test.reason, c.Reason)
				require.Equal(t, []string{"image_hooks " + c.ID}, c.ReasonChain)
				if test.output == pool.OutputKept {
					require.Equal(t, "no config found\n", keptLog(t, h, c.ID))
				}
			})
		})
	}
}

// Of a failed health check the output of the check is kept, too, and nothing that is
// a secret of a hook.
func TestOutputOfFailedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "cannot reach the database with hunter2\n")
		h.Pools.Redact(func(s string) string { return strings.ReplaceAll(s, "hunter2", "•••") })
		h.Apply(printing + "healthcheck: { test: [CMD, box, fail], interval: 1s, retries: 1 }\n")
		c := lastDestroyed(t, h)
		require.Regexp(t, `^container is unhealthy: its check exited with code \d+.*; last output: cannot reach the database with •••$`, c.Reason)
		require.Contains(t, keptLog(t, h, c.ID), "cannot reach the database with •••\n")
	})
}

// A main process that exits while its container is checked ends the check with one
// of several errors, before the engine reports the exit. The exit is the reason.
func TestExitDuringCheck(t *testing.T) {
	for _, met := range []error{runtime.ErrNotRunning, runtime.ErrContainerExited, runtime.ErrTainted, runtime.ErrUnresponsive} {
		t.Run(met.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newPrinter(t, "no config found\n")
				h.RT.Before("exec * box echo healthy", func(_ context.Context, call fake.Call) error {
					time.AfterFunc(300*time.Millisecond, func() { h.RT.Kill(call.ID) })
					return met
				})
				h.Apply(printing + "healthcheck: { test: [CMD, box, echo, healthy], interval: 1s }\n")
				require.Equal(t, "its main process exited with code 137; last output: no config found", lastDestroyed(t, h).Reason)
			})
		})
	}
}

// So it is if no call meets the exit: the container has none that would, or it exits
// when it has just become idle.
func TestExitWithoutCheck(t *testing.T) {
	for call := range 2 {
		synctest.Test(t, func(t *testing.T) {
			h := newPrinter(t, "no config found\n")
			calls := 0
			h.RT.Before("status", func(_ context.Context, c fake.Call) error {
				if calls++; calls == call+1 {
					h.RT.Kill(c.ID)
				}
				return nil
			})
			h.Apply(printing)
			require.Equal(t, "its main process exited with code 137; last output: no config found", lastDestroyed(t, h).Reason)
		})
	}
}

// An engine that does not return the output delays neither the record of an exit for
// long, nor that of others.
func TestHungLogsDelayNoExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPrinter(t, "hello\n")
		h.Apply(flowtest.Edit(printing, "min_idle: 1, max_size: 1", "min_idle: 3, max_size: 3"))
		h.AwaitIdle("w", 3)
		_, unblock := h.RT.Block("logs")
		defer unblock()
		for _, c := range containers(t, h) {
			h.RT.Kill(c.ID)
		}
		start := time.Now()
		h.Until("the exits to be recorded", func() bool { return len(h.Events(activity.ContainerDied)) == 3 })
		require.LessOrEqual(t, time.Since(start), 3*time.Second)
	})
}
