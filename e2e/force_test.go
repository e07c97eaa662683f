package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
)

const forcedHooks = `
pool: { min_idle: 0, max_size: 3 }
hooks:
  pre_release: [{ name: hang, command: [APP, hang, MARKER], timeout: 5m }]
  pre_destroy:
    - { name: notify, builtin: log }
    - { name: last, command: [BOX, echo, last], idempotent: true } # the server is killed at any moment
`

// A claimed container is destroyed by force: the running hook is ended, and the
// pre_destroy hooks run, unless they are skipped. A server that is killed after
// its answer changes nothing of that.
func TestForcedDestruction(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		marker := "hang-" + uuid.NewString()[:8]
		s.apply("forced", strings.ReplaceAll(forcedHooks, "MARKER", marker))
		for tenant, now := range map[string]bool{"ada": false, "bob": true} {
			c, _, err := s.Claim(t.Context(), "forced", tenant, waitTimeout)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var g errgroup.Group
			g.Go(func() error {
				_, _ = s.Release(ctx, c.ID, false) // the server is killed
				return nil
			})
			s.awaitProcess(c.Container, marker)
			destroy := s.DestroyContainer
			if now {
				destroy = s.DestroyContainerNow
			}
			begin := time.Now()
			_, err = destroy(t.Context(), c.Container, true)
			require.NoError(t, err)
			if !now {
				s.kill()
				s.start()
			}
			s.eventually(func() bool {
				k, err := s.Container(t.Context(), c.Container)
				return err == nil && (k.State == client.ContainerDestroyed || k.Forced == "done")
			})
			require.Less(t, time.Since(begin), 2*time.Minute, "less than the timeout of the hook")
			released, err := s.Release(t.Context(), c.ID, false)
			require.NoError(t, err)
			require.Equal(t, client.ClaimReleased, released.State)
			cancel()
			require.NoError(t, g.Wait())
			want := map[bool]client.RunState{false: client.RunSucceeded, true: client.RunSkipped}[now]
			states := map[string]client.RunState{}
			for _, r := range s.runsOf(client.RunFilter{Container: c.Container}) {
				states[r.Hook] = r.State
			}
			if now { // the container may be removed before the hook has ended
				require.Contains(t, []client.RunState{client.RunCancelled, client.RunLost}, states["hang"])
				states["hang"] = client.RunCancelled
			}
			require.Equal(t, map[string]client.RunState{"hang": client.RunCancelled, "notify": want, "last": want}, states)
		}
		s.deleteWorkload("forced")
		s.requireEnds()
		s.requireNothingLeft()
	})
}
