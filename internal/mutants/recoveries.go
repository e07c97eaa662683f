package main

// recoveries are mutations of how pools recover from failures, and of what keeps
// one pool from delaying another.
var recoveries = []mutation{
	{
		desc: "some workloads can use all slots for creating", test: "TestHungCreationsOfSomeWorkloads",
		file: "pool/filler.go",
		old:  `Reserved: reservedCreates,`,
		new:  `Reserved: 0,`,
	},
	{
		desc: "some workloads can use all slots for removing", test: "TestSlowPreDestroysOfSomeWorkloads",
		file: "pool/reaper.go",
		old:  `Reserved: reservedDestroys,`,
		new:  `Reserved: 0,`,
	},
	{
		desc: "a large pool is drained at once", test: "TestDrainOfLargePoolDelaysNoOther",
		file: "pool/scaledown.go",
		old:  `		if evicted == evictBatch {`,
		new:  `		if evicted < 0 {`,
	},
	{
		desc: "the rest of a large pool is not drained", test: "TestDrainOfLargePoolDelaysNoOther",
		file: "pool/scaledown.go",
		old: `			f.Wake(id)
			break
`,
		new: `			break
`,
	},
	{
		desc: "an error of the database when a server begins to lead is not retried", test: "TestStorageErrorAtStartIsRetried",
		file: "pool/provisioner.go",
		old:  `		if err == nil || ctx.Err() != nil {`,
		new:  `		if err == nil || ctx != nil {`,
	},
	{
		desc: "a pool without room does not recover from a failure", test: "TestFailedPoolWithoutRoomRecovers",
		file: "pool/scaledown.go",
		old:  `		wanted = min(wanted, halfOpenProbes)`,
		new:  `		return nil`,
	},
	{
		desc: "an interrupted creation stays on record", test: "TestInterruptedCreationIsSwept",
		file: "pool/creations.go",
		old: `		if !f.isHeld(c.ID) {
`,
		new: `		if c.ID == "" {
`,
	},
	{
		desc: "a creation in progress is taken for an interrupted one", test: "TestSweepKeepsCreationsInProgress",
		file: "pool/creations.go",
		old: `		if !f.isHeld(c.ID) {
`,
		new: `		if c.ID != "" {
`,
	},
	{
		desc: "an idle container of a removed workload stays", test: "TestContainerOfRemovedWorkloadIsSwept",
		file: "pool/creations.go",
		old:  `errors.Join(f.sweepCreations(ctx), f.sweepRemoved(ctx))`,
		new:  `f.sweepCreations(ctx)`,
	},
	{
		desc: "the sweep destroys all idle containers", test: "TestContainerOfRemovedWorkloadIsSwept",
		file: "store/containers.go", pkg: "pool",
		old: `	if f.NoWorkload {
`,
		new: `	if false {
`,
	},
	{
		desc: "interrupted creations are looked for only once", test: "TestInterruptedCreationIsSwept",
		file: "pool/creations.go",
		old: `	f.sweeps.AddAfter(t.Key, sweepInterval)
`,
		new: `	_ = t
`,
	},
	{
		desc: "a creation of a former revision counts as one of the current", test: "TestRetriesWhileFormerRevisionHangs",
		file: "pool/creations.go",
		old:  `h.c.Workload == workload && h.c.Revision == revision {`,
		new:  `h.c.Workload == workload && revision != "" {`,
	},
	{
		desc: "creations of a former revision keep their slots", test: "TestHungCreationsOfFormerRevisionAreCanceled",
		file: "pool/creations.go",
		old:  `			h.cancel(errOutdated)`,
		new:  `			_ = errOutdated`,
	},
	{
		desc: "creations of a former revision are canceled at once", test: "TestHungCreationsOfFormerRevisionAreCanceled",
		file: "pool/creations.go",
		old:  `		case now.Before(h.outdatedAt.Add(outdatedGrace)):`,
		new:  `		case now.Before(h.outdatedAt):`,
	},
	{
		desc: "a revision that is current again counts as outdated", test: "TestRevertedRevisionKeepsCreations",
		file: "pool/creations.go",
		old: `			h.outdatedAt = time.Time{}
`,
	},
	{
		desc: "a panic during a creation has no backoff", test: "TestPanicDuringCreation",
		file: "pool/creations.go",
		old: `	err := errPanicked
`,
		new: `	var err error
`,
	},
	{
		desc: "the failure to create a container ends a crash loop", test: "TestCreateFailureDoesNotEndCrashLoop",
		file: "pool/breaker.go",
		old:  `b.CrashLooping || crashLooping, f`,
		new:  `crashLooping, f`,
	},
	{
		desc: "a crash loop does not end before the clock has caught up", test: "TestCrashLoopAfterClockWasSetBack",
		file: "pool/breaker.go",
		old: `		return now
`,
		new: `		return b.LastErrorAt
`,
	},
	{
		desc: "a pool yields to the first burst of claims only", test: "TestEachBurstIsYieldedTo",
		file: "pool/yield.go",
		old: `		delete(y.since, id) // the next burst is another one
`,
	},
	{
		desc: "a removal of an orphan that hangs has no end", test: "TestHungRemovalOfOrphan",
		file: "pool/orphans.go",
		old:  `context.WithTimeout(ctx, removeTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "the removal of an orphan is recorded at each attempt", test: "TestOrphanRemovedAfterGrace",
		file: "pool/orphans.go",
		old: `		w.removing.Store(k, true)
`,
	},
	{
		desc: "the removal of a container that has a record by now is retried", test: "TestOrphanWithLateRecordIsKept",
		file: "pool/orphans.go",
		old:  `	if err == nil && reason != "" {`,
		new:  `	if err == nil {`,
	},
}
