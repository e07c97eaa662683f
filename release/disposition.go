package release

import (
	"github.com/hostler/hostler/pool"
)

// facts are what the disposition of a container depends on.
type facts struct {
	unusable   string // why a step of the release found it unusable
	deleted    bool   // its workload is deleted
	discard    bool   // its tenant discarded it
	draining   bool   // its pool is draining
	reuseNever bool
	outdated   string // why it is outdated
	health     pool.Health
}

// disposition is what becomes of the container of a released claim. The zero
// value keeps it: the container returns to the pool.
type disposition struct {
	destroy bool
	reason  string // why it is destroyed
}

// dispose returns what becomes of a container. The first reason to destroy it
// counts.
func (f facts) dispose() disposition {
	for _, rule := range []struct {
		applies bool
		reason  string
	}{
		{f.unusable != "", f.unusable},
		{f.deleted, "its workload is deleted"},
		{f.discard, "its tenant discarded it"},
		{f.draining, "the pool is draining"},
		{f.reuseNever, "it was used and reuse is never"},
		{f.outdated != "", f.outdated},
		{f.health != pool.Healthy, "it is " + string(f.health)},
	} {
		if rule.applies {
			return disposition{destroy: true, reason: rule.reason}
		}
	}
	return disposition{}
}

// transition returns the transition of the container. snapshotID is the
// snapshot that the container holds, or "" when it is unchanged. chain is what was
// being done when a reason to destroy it was found.
func (d disposition) transition(snapshotID string, chain ...string) pool.Transition {
	if d.destroy {
		return pool.BeginDestroyAfter(chain, []pool.State{pool.Claimed}, d.reason)
	}
	keep := pool.Return("container returned to the pool", func(c *pool.Container) {
		if snapshotID != "" {
			c.Snapshot = snapshotID
		}
	})
	keep.If = isKeepable
	return keep
}

// isKeepable reports whether the health of a container permits to keep it. An unreachable
// container may be kept: its restart decides, and a machine that was away for a while
// costs no tenant's files.
func isKeepable(c pool.Container) bool { return c.Health == pool.Healthy || c.IsUnreachable() }
