package claim_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// A claim whose container begins to terminate, exits or is out of reach before the claim
// is active takes another container. If a hook has begun, which never runs again, it fails.
func TestClaimOfTerminatingContainer(t *testing.T) {
	const hook = "hooks: { post_claim: [{ command: [box, echo, once] }] }\n"
	for name, test := range map[string]struct {
		hooks       string
		whenReached bool // and not only when the claim becomes active
		fails       bool
		exits       bool // and does not terminate
	}{
		"before a hook":       {hooks: hook, whenReached: true},
		"before it is active": {},
		"after a hook":        {hooks: hook, fails: true},
		"it exits":            {exits: true},
		"it exits, a hook":    {hooks: hook, exits: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(reachedWorkload + test.hooks)
				h.AwaitIdle("w", 4)
				first := longestIdle(h).ID
				terminate := sync.OnceFunc(func() {
					if test.exits {
						h.RT.Kill(first)
						h.Await("the event", func() bool { return len(h.Events(activity.ContainerDied)) == 1 })
						synctest.Wait()
						return
					}
					h.RT.SetCondition(first, runtime.Terminating)
					h.Await("the event", func() bool { return len(h.Events(activity.ContainerTerminating)) == 1 })
					synctest.Wait()
				})
				if test.whenReached {
					h.RT.Before("reach "+first, func(context.Context, fake.Call) error { terminate(); return nil })
				}
				claims := newHookedService(h, func(m claim.Transition) error {
					if m.To == claim.Active {
						terminate()
					}
					return nil
				})
				c, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				if test.fails {
					require.ErrorIs(t, err, pool.ErrUnhealthy)
					require.Empty(t, h.Events(activity.ClaimActivated))
					return
				}
				require.NoError(t, err)
				require.NotEqual(t, first, c.Container)
				require.LessOrEqual(t, len(h.Events(activity.HookCompleted)), 1)
			})
		})
	}
}
