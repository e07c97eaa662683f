package main

// queues are mutations of packages internal/backoff and internal/workqueue.
var queues = []mutation{
	{
		desc: "a wait does not grow", test: "TestDelay",
		file: "internal/backoff/backoff.go",
		old:  `wait += min(wait, p.Max-wait)`,
		new:  `wait += 0`,
	},
	{
		desc: "a wait overflows", test: "TestDelay",
		file: "internal/backoff/backoff.go",
		old:  `wait += min(wait, p.Max-wait)`,
		new:  `wait *= 2`,
	},
	{
		desc: "waits have no jitter", test: "TestJitter",
		file: "internal/backoff/backoff.go",
		old:  `(1 + p.Jitter*(2*random()-1))`,
		new:  `(1 + 0*random())`,
	},
	{
		desc: "a key that is added during its execution is not executed again", test: "TestOneExecutionPerKey",
		file: "internal/workqueue/run.go",
		old: `	if i.waits {
		q.schedule(i, i.at)
	} else {
		delete(q.items, t.Key)
	}
`,
		new: `	delete(q.items, t.Key)
`,
	},
	{
		desc: "a key is executed twice at once", test: "TestOneExecutionPerKey",
		file: "internal/workqueue/workqueue.go",
		old: `	if i.running {
		return
	}
`,
	},
	{
		desc: "the latest time of a key counts", test: "TestEarliestTimeCounts",
		file: "internal/workqueue/workqueue.go",
		old:  `!at.Before(i.at) || `,
	},
	{
		desc: "a failing key is executed whenever it is added", test: "TestFailingKeyBacksOff",
		file: "internal/workqueue/workqueue.go",
		old:  ` || i.failures > 0 && !i.running) {`,
		new:  `) {`,
	},
	{
		desc: "a success does not reset the backoff", test: "TestSuccessResetsBackoff",
		file: "internal/workqueue/run.go",
		old: `	i.failures = 0
`,
	},
	{
		desc: "a forgotten key is retried", test: "TestForgetDuringExecution",
		file: "internal/workqueue/run.go",
		old:  `	if err != nil && i == t.item {`,
		new:  `	if err != nil {`,
	},
	{
		desc: "groups do not take turns", test: "TestGroupsTakeTurns",
		file: "internal/workqueue/workqueue.go",
		old:  `q.turns = append(q.turns, g) // its`,
		new:  `q.turns = slices.Insert(q.turns, 0, g) // its`,
	},
	{
		desc: "owners take no turns", test: "TestOwnersShareSlots",
		file: "internal/workqueue/workqueue.go",
		old:  `n < fewest && q.hasSlot`,
		new:  `fewest == slots && q.hasSlot`,
	},
	{
		desc: "a finished execution counts for its owner", test: "TestOwnersShareSlots",
		file: "internal/workqueue/workqueue.go",
		old:  `	if q.owners[g.owner]--; q`,
		new:  `	if q`,
	},
	{
		desc: "one group can use all slots", test: "TestSlowGroupDoesNotDelayOthers",
		file: "internal/workqueue/workqueue.go",
		old:  ` && isBelow(g.usage.running, o.PerGroup) &&`,
		new:  ` &&`,
	},
	{
		desc: "no slot is reserved", test: "TestLimits",
		file: "internal/workqueue/workqueue.go",
		old:  `(g.usage.running == 0 || free > o.Reserved) && `,
	},
	{
		desc: "a group that waits for a slot delays the others", test: "TestSlowGroupDoesNotDelayOthers",
		file: "internal/workqueue/workqueue.go",
		old:  `	if at < 0 {`,
		new:  `	if at != 0 {`,
	},
	{
		desc: "parked executions have no limit", test: "TestPark",
		file: "internal/workqueue/workqueue.go",
		old:  `isBelow(g.usage.parked, o.ParkedPerGroup)`,
		new:  `isBelow(0, o.ParkedPerGroup)`,
	},
	{
		desc: "the end of an execution starts no other", test: "TestLimits",
		file: "internal/workqueue/run.go",
		old: `		t.freeKey(err)
	}
	q.signal()
`,
		new: `		t.freeKey(err)
	}
`,
	},
	{
		desc: "a panic of one key ends the program", test: "TestPanicIsRetried",
		file: "internal/workqueue/run.go",
		old:  `if p := recover(); p != nil {`,
		new:  `if p := any(nil); p != nil {`,
	},
	{
		desc: "a panic counts as a success", test: "TestPanicIsRetried",
		file: "internal/workqueue/run.go",
		old:  `			err = fmt.Errorf("panic: %v", p)`,
		new:  `			err = nil`,
	},
	{
		desc: "Run does not wait for its executions", test: "TestRunStops",
		file: "internal/workqueue/run.go",
		old: `	defer executions.Wait()
`,
	},
}
