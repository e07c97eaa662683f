package claim

import (
	"fmt"

	"github.com/hostler/hostler/workload"
)

// plan is what is done to a reserved container before its tenant gets it, in
// this order.
type plan struct {
	wipe     bool // it holds another tenant's files, or outdated ones
	update   bool // it holds outdated files of its tenant, which the download replaces
	seed     bool // its volumes are empty
	download bool
	restart  workload.Restart
}

// contents is what a reserved container holds.
type contents struct {
	source Source
	synced bool // claims download the tenant's state
	stale  bool // it holds another snapshot than the tenant's current one
	known  bool // of a stale one: it can be updated from the snapshot that it holds
}

// plans are the plans for everything that a container can hold, apart from
// restart. Pools without sync seed their containers when they create them.
var plans = map[contents]plan{
	{Fresh, false, false, false}:    {},
	{Fresh, true, false, false}:     {seed: true, download: true},
	{Affinity, false, false, false}: {},
	{Affinity, true, false, false}:  {},
	{Affinity, true, true, true}:    {update: true, download: true},
	{Affinity, true, true, false}:   {wipe: true, seed: true, download: true},
	{Recycled, false, false, false}: {wipe: true, seed: true},
	{Recycled, true, false, false}:  {wipe: true, seed: true, download: true},
}

// newPlan returns the plan for a container. A wipe and an update end the main
// process, which is then restarted whatever the policy is.
func newPlan(c contents, policy workload.Restart) (plan, error) {
	p, ok := plans[c]
	if !ok {
		return p, fmt.Errorf("no plan for a container that is %q, synced %t, stale %t, known %t", c.source, c.synced, c.stale, c.known)
	}
	if p.restart = policy; p.wipe || p.update {
		p.restart = workload.RestartAlways
	}
	return p, nil
}

// needsRestart reports whether the main process is restarted. changed is
// whether anything was changed in the container.
func (p plan) needsRestart(changed bool) bool {
	return p.restart == workload.RestartAlways || changed && p.restart != workload.RestartNever
}

// needsCompare reports whether the tenant's current snapshot is looked up
// before the container is changed. That applies to the tenant's own last
// container, whose files may be outdated, and to a container that is seeded,
// because seeding must not start while the sink is unavailable.
func (c contents) needsCompare(hasSeeds bool) bool {
	return c.synced && (c.source == Affinity || hasSeeds)
}
