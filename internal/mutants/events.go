package main

// events are mutations of what follows the activity log.
var events = []mutation{
	{
		desc: "a claim has its pool filled at once", test: "TestFillAfterClaimEvents",
		file: "pool/events.go",
		old:  `p.filler.checks.AddAfter(e.Workload, fillDelay)`,
		new:  `p.filler.checks.Add(e.Workload)`,
	},
	{
		desc: "the request of a claim that got a container counts as one that waits", test: "TestFillAfterClaimEvents",
		file: "pool/events.go",
		old: `				delete(requested, e.Claim)
`,
	},
	{
		desc: "the reaper is not woken by the event", test: "TestDestroyedAtOnce",
		file: "pool/events.go",
		old:  `p.reaper.Wake(); wake(e) },`,
		new:  `wake(e) },`,
	},
	{
		desc: "nothing is looked at after events could not be read", test: "TestOutage",
		file: "internal/dispatch/dispatch.go",
		old: `		d.resync = true
		return false, fmt.Errorf("read events`,
		new: `		return false, fmt.Errorf("read events`,
	},
	{
		desc: "the dispatcher misses that retention was faster", test: "TestMissedEvents",
		file: "internal/dispatch/dispatch.go",
		old:  ` || page.OldestSeq > 0 {`,
		new:  ` {`,
	},
	{
		desc: "an event during a read is missed", test: "TestEventDuringRead",
		file: "internal/dispatch/dispatch.go",
		old: `		changed := log.Changed() // before the read, so that no event is missed
		more, err := advance(ctx)
`,
		new: `		more, err := advance(ctx)
		changed := log.Changed()
`,
	},
	{
		desc: "two advance a cursor over the same events", test: "TestSQLiteCursors",
		file: "store/cursors.go",
		old:  `		if n == 0 {`,
		new:  `		if n < 0 {`,
	},
	{
		desc: "retention removes what a cursor has not passed", test: "TestSQLite",
		file: "store/prune.go",
		old:  `end = min(end, passed.Int64)`,
		new:  `end = max(end, passed.Int64)`,
	},
}
