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
		desc: "a failed release wakes no pool", test: "TestFailedReleaseWakesFiller",
		file: "pool/events.go",
		old: `			activity.ClaimReleaseFailed: wake,
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
		old: `		d.missed()
		_ = flow.Sleep`,
		new: `		_ = flow.Sleep`,
	},
	{
		desc: "the dispatcher misses that retention was faster", test: "TestMissedEvents",
		file: "internal/dispatch/dispatch.go",
		old:  `if page.OldestSeq > 0 {`,
		new:  `if page.OldestSeq < 0 {`,
	},
	{
		desc: "the dispatcher misses that the log has lost events", test: "TestLostEvents",
		file: "internal/dispatch/dispatch.go",
		old:  `if page.Rewinds != d.rewinds {`,
		new:  `if page.Rewinds < 0 {`,
	},
	{
		desc: "events that the log has lost stay in memory", test: "TestBufferIsAheadOfLog",
		file: "store/eventbuffer.go",
		old: `	if min(before, t.last) > last {
		t.rewind(last)
	}
`,
	},
	{
		desc: "events whose numbers were given to others stay in memory", test: "TestBufferIsAheadOfLog",
		file: "store/eventbuffer.go",
		old: `		if t.contradicts(e) {
			t.rewind(e.Seq - 1)
			return
		}
`,
		new: `		_ = e
`,
	},
	{
		desc: "the event of a change is taken for one that the log has lost", test: "TestBufferIsAheadOfLog",
		file: "store/eventbuffer.go",
		old: `		if t.contradicts(e) {
			t.rewind(e.Seq - 1)
		}
`,
	},
	{
		desc: "a failover of the database is not noticed", test: "TestFailoverLosesEvents",
		file: "store/postgreslisten.go",
		old:  `	db.buffer.verify(before, last, page.Items)`,
		new:  `	_, _, _ = before, last, page`,
	},
	{
		desc: "a failing resync keeps the events from all", test: "TestResyncPanics",
		file: "internal/dispatch/dispatch.go",
		old: `	d.handle(ctx, page.Items)
`,
		new: `	for _, s := range d.subscribers {
		if s.pending {
			page.Items = nil
		}
	}
	d.handle(ctx, page.Items)
`,
	},
	{
		desc: "a failing resync is repeated with every event", test: "TestResyncIsRepeated",
		file: "internal/dispatch/dispatch.go",
		old:  `	if !s.pending || time.Now().Before(s.retryAt) {`,
		new:  `	if !s.pending {`,
	},
	{
		desc: "a failing resync is repeated with the next event only", test: "TestResyncIsRepeated",
		file: "internal/dispatch/dispatch.go",
		old:  `			wait = min(wait, max(time.Until(s.retryAt), time.Millisecond))`,
		new:  ``,
	},
	{
		desc: "a handler that panics delays the others", test: "TestHandlerPanics",
		file: "internal/dispatch/dispatch.go",
		old:  `		s.pending, s.retryAt = true, time.Now().Add(retryDelay)`,
		new: `		s.pending, s.retryAt = true, time.Now().Add(retryDelay)
		_ = flow.Sleep(ctx, retryDelay)`,
	},
	{
		desc: "nothing is looked at after a handler panicked", test: "TestHandlerPanics",
		file: "internal/dispatch/dispatch.go",
		old:  `		s.pending, s.retryAt = true, time.Now().Add(retryDelay)`,
		new:  `		s.retryAt = time.Now().Add(retryDelay)`,
	},
	{
		desc: "an event during a read is missed", test: "TestEventDuringRead",
		file: "internal/dispatch/dispatch.go",
		old: `		changed := log.Changed() // before the read, so that no event is missed
		wait := advance(ctx)
`,
		new: `		wait := advance(ctx)
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
