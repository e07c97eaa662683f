package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
)

// A workload whose containers exit when they are idle, however soon or late, and
// however long their creation takes, has no containers created in a hot loop: what is
// forgiven once is not forgiven again.
func TestEarlyExitsAreNoHotLoop(t *testing.T) {
	for name, c := range map[string]struct {
		creation, lifetime time.Duration
		most               int // containers in a quarter of an hour
	}{
		"at once":       {0, time.Second, 80},
		"slow creation": {3 * time.Minute, time.Second, 20},
		"just early":    {0, 2*time.Minute - time.Second, 40},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.RT.Before("create", func(context.Context, fake.Call) error { <-time.After(c.creation); return nil })
				h.Apply(poolYAML(3, 3))
				for end := time.Now().Add(15 * time.Minute); time.Now().Before(end); {
					<-time.After(time.Second)
					synctest.Wait()
					idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
					require.NoError(t, err)
					for _, k := range idle {
						if time.Since(k.ChangedAt) >= c.lifetime {
							h.RT.Kill(k.ID)
						}
					}
				}
				require.LessOrEqual(t, len(h.Events(activity.ContainerCreating)), c.most)
			})
		})
	}
}
