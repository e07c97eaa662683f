package release_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// startCommand starts a command of the tenant.
func startCommand(h *flowtest.Harness, c claim.Claim, args ...string) runtime.CommandStream {
	h.T.Helper()
	stream, err := h.RT.OpenCommand(h.T.Context(), c.Container, runtime.TenantCommand{ID: "cmd-1", Args: args, Fence: c.ContainerFence})
	require.NoError(h.T, err)
	return stream
}

// The tenant's commands have ended before a pre_release hook starts, and none starts
// from then on.
func TestCommandsEndBeforePreRelease(t *testing.T) {
	for name, command := range map[string][]string{
		"one that exits": {"box", "hang"}, "one that does not": {"box", "ignore-term"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(hookedWorkload)
				c := h.Claim("w", "ada")
				stream := startCommand(h, c, command...)
				hooksRun := 0
				h.RT.Before("exec * box echo flushed", func(ctx context.Context, _ fake.Call) error {
					hooksRun++
					_, err := stream.Next()
					for err == nil {
						_, err = stream.Next()
					}
					require.ErrorIs(t, err, io.EOF, "it has ended")
					_, err = h.RT.OpenCommand(ctx, c.Container, runtime.TenantCommand{ID: "late", Args: command, Fence: c.ContainerFence})
					require.ErrorIs(t, err, runtime.ErrStaleFence)
					_, err = h.RT.DialPort(ctx, c.Container, 80, c.ContainerFence)
					require.ErrorIs(t, err, runtime.ErrStaleFence)
					return nil
				})
				h.Release(c)
				require.Equal(t, 1, hooksRun)
			})
		})
	}
}

// What ending the commands finds decides what becomes of the container: one with a
// command that cannot be ended is destroyed, and while the engine is unavailable no
// hook of the release runs.
func TestReleaseWhenCommandsCannotBeEnded(t *testing.T) {
	for _, call := range []string{"close_ports", "end_commands"} {
		for name, tt := range map[string]struct {
			err       error
			destroyed bool
		}{
			"tainted": {runtime.ErrTainted, true},
			"stopped": {runtime.ErrNotRunning, false},
			"exited":  {runtime.ErrContainerExited, false},
		} {
			t.Run(call+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := flowtest.New(t)
					h.Apply(hookedWorkload)
					c := h.Claim("w", "ada")
					h.RT.BreakOnce(call, tt.err)
					require.Equal(t, claim.Released, h.Release(c).State)
					k, err := h.DB.Container(t.Context(), c.Container)
					require.NoError(t, err)
					require.Equal(t, tt.destroyed, k.State != pool.Idle, k.Reason)
				})
			})
		}
		t.Run(call+" unavailable", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(hookedWorkload)
				c := h.Claim("w", "ada")
				repair := h.RT.Break(call, runtime.ErrUnavailable)
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.ErrorIs(t, err, runtime.ErrUnavailable)
				require.Empty(t, h.Events(activity.ClaimReleased))
				require.False(t, slices.Contains(h.RT.Calls(), "exec "+c.Container+" box echo flushed"))
				repair()
				h.Restart()
				require.Len(t, h.Events(activity.ClaimReleased), 1)
			})
		})
	}
}

// A release that runs no hook and keeps no state needs no engine, if its container is
// destroyed: what the tenant runs ends with that.
func TestReleaseWithoutHooksWhileCommandsCannotBeEnded(t *testing.T) {
	for _, call := range []string{"close_ports", "end_commands"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply("id: w\nimage: box\npool: { min_idle: 0, max_size: 1, reuse: never }\n")
			c := h.Claim("w", "ada")
			defer h.RT.Break(call, runtime.ErrUnavailable)()
			require.Equal(t, claim.Released, h.Release(c).State, call)
		})
	}
}

// A container whose main process has exited is asked for nothing.
func TestReleaseOfExitedContainerEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		h.RT.Kill(c.Container)
		h.Until("the exit to be recorded", func() bool {
			k, err := h.DB.Container(t.Context(), c.Container)
			return err == nil && k.Health == pool.Exited
		})
		h.ForgetCalls()
		h.Release(c)
		require.NotContains(t, h.RT.Calls(), "end_commands "+c.Container)
	})
}
