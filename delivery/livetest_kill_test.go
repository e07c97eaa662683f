package delivery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// The command of a test whose server was killed ends when the release begins,
// before a hook of the release runs.
func TestReleaseEndsTestOfTerminatedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(testedWorkload)
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		c, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		run := hooks.Run{
			ID: "test", Attempt: 1, Point: hooks.PreRelease, Hook: "first", Kind: hooks.KindCommand, StartedAt: time.Now(),
			Workload: "w", Container: c.Container, Claim: c.ID, Tenant: c.Tenant,
		}.AsTest()
		permission, err := h.DB.StartTest(t.Context(), run)
		require.NoError(t, err)
		ended := make(chan time.Time, 1)
		go func() {
			_, _ = h.RT.Exec(t.Context(), c.Container, runtime.Command{
				RunID: "test.1", Args: []string{"box", "ignore-term"}, Timeout: time.Hour, Fence: permission.Fence,
			})
			ended <- time.Now()
		}()
		synctest.Wait()
		h.RestartUnfinished()
		h.Release(c)
		own, err := h.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID, Point: hooks.PreRelease})
		require.NoError(t, err)
		at := <-ended
		require.Falsef(t, own[0].StartedAt.Before(at), "the hook of the release began %s before the test ended", at.Sub(own[0].StartedAt))
		tests, err := h.DB.Run(t.Context(), "test")
		require.NoError(t, err)
		require.Equal(t, hooks.Unknown, tests[0].State)
	})
}
