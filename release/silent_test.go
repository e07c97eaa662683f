package release_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// limit is for how long a container may be silent, as the sessions of a backend
// have it.
const limit = 2 * time.Minute

// silence has a claim's container answer nothing, while the engine says that it
// runs; from the limit on it is tainted.
func silence(y *flowtest.Yard, c claim.Claim) {
	begun := time.Now()
	for _, op := range []string{"exec", "outcome", "restart", "stop", "get"} {
		y.RT.Before(op+" "+c.Container, func(ctx context.Context, _ fake.Call) error {
			select {
			case <-time.After(min(15*time.Second, max(limit-time.Since(begun), 0))):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if time.Since(begun) < limit {
				return runtime.ErrUnresponsive
			}
			return runtime.ErrDoomed
		})
	}
}

// A container that does not answer holds its claim and its place no longer than
// until it is tainted, also where hooks are to run in it: it is destroyed, or
// kept for the state that could not be read, in a place of its own.
func TestReleaseOfASilentContainer(t *testing.T) {
	hook := "hooks: { pre_release: [{ command: [box, echo, flushed], timeout: 30s }] }"
	for name, tt := range map[string]struct {
		file  string
		state claim.State
	}{
		"without state":       {strings.Split(kept, "sync:")[0], claim.Released},
		"hook, without state": {strings.Split(kept, "sync:")[0] + hook, claim.Released},
		"with state":          {kept, claim.ReleaseFailed},
		"hook, with state":    {kept + hook, claim.ReleaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				running(t, y)
				y.Apply(strings.NewReplacer("reuse: never", "reuse: same_tenant, release_failed_ttl: 2h", "max_size: 2", "max_size: 1").Replace(tt.file))
				c := y.Claim("w", "ada")
				begun := time.Now()
				silence(y, c)
				_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				if err != nil {
					require.ErrorIs(t, err, runtime.ErrUnresponsive)
					require.Equal(t, claim.Releasing, now(y, c).State)
				}
				y.Until("the release to end", func() bool { return now(y, c).State == tt.state })
				require.Less(t, time.Since(begun), 2*limit)
				y.Claim("w", "bob") // it does not wait for long
				require.Less(t, time.Since(begun), 3*limit)
				if tt.state == claim.Released {
					require.Equal(t, pool.Gone, container(y, c).State)
					return
				}
				require.Equal(t, claim.FailedByTenant, now(y, c).FailureReason)
				require.Equal(t, pool.Claimed, container(y, c).State, "it holds the last copy")
				<-time.After(time.Hour)
				require.Equal(t, pool.Claimed, container(y, c).State)
				y.Until("it to be given up", func() bool { return now(y, c).State == claim.Released })
				require.Len(t, y.Events(activity.ClaimStateLost), 1)
				runs, err := y.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID})
				require.NoError(t, err)
				require.LessOrEqual(t, len(runs), 1, "a hook is not begun again")
			})
		})
	}
}

// container is that of a claim, as it is on record.
func container(y *flowtest.Yard, c claim.Claim) pool.Container {
	y.T.Helper()
	k, err := y.Pools.Container(y.T.Context(), c.Container)
	require.NoError(y.T, err)
	return k
}
