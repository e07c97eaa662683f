package release

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/pool"
)

// A container returns to the pool only when nothing speaks against it. The first
// reason in the order of this table counts, whatever else applies.
func TestDispose(t *testing.T) {
	healthy := facts{health: pool.Healthy}
	require.Equal(t, disposition{}, healthy.dispose())
	rules := []struct {
		apply  func(f *facts)
		reason string
	}{
		{func(f *facts) { f.unusable = "a hook may still run" }, "a hook may still run"},
		{func(f *facts) { f.deleted = true }, "its workload is deleted"},
		{func(f *facts) { f.discard = true }, "its tenant discarded it"},
		{func(f *facts) { f.draining = true }, "the pool is draining"},
		{func(f *facts) { f.reuseNever = true }, "it was used and reuse is never"},
		{func(f *facts) { f.outdated = "it is of an old revision" }, "it is of an old revision"},
		{func(f *facts) { f.health = pool.Unhealthy }, "it is unhealthy"},
	}
	for set := 1; set < 1<<len(rules); set++ {
		f, want := healthy, ""
		for i, rule := range rules {
			if set&(1<<i) != 0 {
				rule.apply(&f)
				if want == "" {
					want = rule.reason
				}
			}
		}
		require.Equal(t, disposition{destroy: true, reason: want}, f.dispose(), "%+v", f)
	}
	for _, h := range []pool.Health{pool.Exited, pool.Unhealthy, ""} {
		require.True(t, facts{health: h}.dispose().destroy, h)
	}
}

// A container that is kept records the snapshot that it holds, if there is one.
func TestDispositionTransition(t *testing.T) {
	keep := disposition{}.transition("new")
	require.Equal(t, pool.Idle, keep.To)
	c := pool.Container{Claim: "c", Snapshot: "old"}
	keep.Set(&c)
	require.Equal(t, pool.Container{Snapshot: "new"}, c)
	c = pool.Container{Claim: "c", Snapshot: "old"}
	disposition{}.transition("").Set(&c)
	require.Equal(t, pool.Container{Snapshot: "old"}, c)
	destroy := disposition{destroy: true, reason: "why"}.transition("new")
	require.Equal(t, pool.Destroying, destroy.To)
	destroy.Set(&c)
	require.Equal(t, "why", c.Reason)
}
