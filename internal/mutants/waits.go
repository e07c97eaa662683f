package main

// waits are mutations of package wait and of its storage.
var waits = []mutation{
	{
		desc: "events of waits have no variables", test: "TestTrustedVariablesOfEvents",
		file: "hooks/runner/event.go",
		old:  `		addWait(all, e)`,
		new:  `		_ = addWait`,
	},
	{
		desc: "an event of a wait has variables of another one", test: "TestTrustedVariablesOfEvents",
		file: "hooks/runner/event.go",
		old:  `rule.IsSuppliedAt(e.Type) {`,
		new:  `rule.Name != "" {`,
	},
	{
		desc: "hooks for events may not name variables of waits", test: "TestVariablesOfWaitEvents",
		file: "workload/events.go",
		old:  `		if (hooks.EventHook{On: h.On}).Matches(string(t), everyField) {`,
		new:  `		if len(h.On) == 0 {`,
	},
	{
		desc: "an event has the whole context of a wait", test: "TestEventsHaveVariables",
		file: "wait/transition.go",
		old:  `		if n++; n > maxEventText {`,
		new:  `		if n++; n < 0 {`,
	},
	{
		desc: "doctor does not find a wait whose deadline has passed", test: "TestStuckWait",
		file: "doctor/waits.go",
		old:  `		return *w.Deadline`,
		new:  `		return w.Deadline.Add(time.Hour)`,
	},
	{
		desc: "doctor finds waits whose hooks run", test: "TestStuckWait",
		file: "doctor/waits.go",
		old:  `	case w.FiredAt != nil:`,
		new:  `	case w.FiredAt != nil && w.Retried:`,
	},
	{
		desc: "a server runs the hooks of another one's wait", test: "TestOneEnd",
		file: "wait/progress.go",
		old:  `	case w.State.runsHooks() && w.Owner != s.store.Self():`,
		new:  `	case w.State.runsHooks() && w.Owner == "none":`,
	},
	{
		desc: "hooks that were begun are begun again", test: "TestOneEnd",
		file: "wait/memory.go",
		old: `	delete(s.fresh, w.ID)
	return is`,
		new: `	return is || true`,
	},
	{
		desc: "only the server that began a wait ends it", test: "TestServerIsKilled",
		file: "wait/service.go",
		old:  `		s.setTimer(k, data.Round, time.Duration(data.TimeoutMS)*time.Millisecond+standbyDelay)`,
		new:  `		_ = standbyDelay`,
	},
	{
		desc: "a clock that is set forward ends waits", test: "TestClockIsSet",
		file: "wait/memory.go",
		old: `	if !ok || t.round < round {
		s.setTimer`,
		new: `	if true || t.round < round && ok {
		s.setTimer`,
	},
	{
		desc: "a wait ends before its time is over", test: "TestDeadline",
		file: "wait/transition.go",
		old:  `	deadline := now.Add(w.Timeout())`,
		new:  `	deadline := now.Add(w.Timeout() - time.Second)`,
	},
	{
		desc: "the release of a claim ends no hooks of waits", test: "TestReleaseEndsHooks",
		file: "wait/service.go",
		old: `		s.cancelHooks(k)
`,
		new: ``,
	},
	{
		desc: "hooks that may not start hold back a wait", test: "TestForcedContainer",
		file: "wait/progress.go",
		old:  `	case errors.Is(err, pool.ErrConflict):`,
		new:  `	case errors.Is(err, pool.ErrConflict) && len(out.Runs) > 0:`,
	},
	{
		desc: "a wait is extended twice", test: "TestDecisions",
		file: "wait/transition.go",
		old:  `	case v.Decision == Extend && w.Extended:`,
		new:  `	case v.Decision == Extend && w.Extended && w.Retried:`,
	},
	{
		desc: "a wait is retried twice", test: "TestDecisions",
		file: "wait/transition.go",
		old:  `	case v.Decision == Retry && w.Retried:`,
		new:  `	case v.Decision == Retry && w.Retried && w.Extended:`,
	},
	{
		desc: "an extension has no limit", test: "TestDecisions",
		file: "wait/hooks.go",
		old:  `	if v.By = d; d > max {`,
		new:  `	if v.By = d; d < 0 {`,
	},
	{
		desc: "the first line of a hook decides", test: "TestDecisions",
		file: "wait/hooks.go",
		old:  `	return text[before+1:]`,
		new:  `	return text`,
	},
	{
		desc: "the end of a line whose beginning is lost decides", test: "TestCutLineDecidesNothing",
		file: "wait/hooks.go",
		old:  `	if before < 0 && o.Truncated {`,
		new:  `	if before < 0 && o.Truncated && text == "" {`,
	},
	{
		desc: "a decision whose extension is a number is lost without a word", test: "TestExtensionIsADuration",
		file: "wait/hooks.go",
		old:  `By       any      `,
		new:  `By       *string  `,
	},
	{
		desc: "a lost answer loses the wait", test: "TestWaitReturnsToItsWait",
		file: "client/waits.go",
		old:  `c.FollowWait(ctx, id, pollTime)`,
		new:  `c.FollowWait(ctx, w.ID+id[len(id):], pollTime)`,
	},
	{
		desc: "a server starts that refuses every wait", test: "TestInvalidTimes",
		file: "cmd/hostler/config_linux.go",
		old:  `	if c.maxWaitTimeout < time.Millisecond {`,
		new:  `	if c.maxWaitTimeout < -time.Hour {`,
	},
	{
		desc: "a hook that failed decides", test: "TestFailedHookDecidesNothing",
		file: "wait/hooks.go",
		old:  `	if last.State != hooks.Succeeded {`,
		new:  `	if last.State == hooks.Skipped {`,
	},
	{
		desc: "a NUL reaches the variables of a process", test: "TestVariables",
		file: "wait/hooks.go",
		old:  `		return strings.ReplaceAll(s, "\x00", "")`,
		new:  `		return strings.ReplaceAll(s, "\x01", "")`,
	},
	{
		desc: "data that is not UTF-8 is stored", test: "TestInvalidRequests", pkg: "wait",
		file: "internal/jsonvalue/jsonvalue.go",
		old:  `if !utf8.Valid(value) {`,
		new:  `if !utf8.Valid(nil) {`,
	},
	{
		desc: "a stopping server keeps its callers", test: "TestClose",
		file: "wait/service.go",
		old: `		case <-s.closed:
		case <-changed:`,
		new: `		case <-changed:`,
	},
	{
		desc: "waits survive their claim", test: "TestSQLite",
		file: "store/claims.go", pkg: "store",
		old: `	if before.State == claim.Active && after.State != claim.Active {`,
		new: `	if before.State == claim.Pending && after.State != claim.Active {`,
	},
	{
		desc: "a wait changes from any state", test: "TestSQLite",
		file: "store/waits.go", pkg: "store",
		old: `	if w.State != m.From || w.Round != m.Round || w.Claim != c.ID {`,
		new: `	if w.Round != m.Round || w.Claim != c.ID {`,
	},
	{
		desc: "an old round ends the next one", test: "TestSQLite",
		file: "store/waits.go", pkg: "store",
		old: `	if w.State != m.From || w.Round != m.Round || w.Claim != c.ID {`,
		new: `	if w.State != m.From || w.Claim != c.ID {`,
	},
	{
		desc: "a kept signal stays after it was given to a wait", test: "TestSQLite",
		file: "store/signals.go", pkg: "store",
		old: `	return w.Receive([]byte(data), now), t.execLater(deleteSignal, id)`,
		new: `	return w.Receive([]byte(data), now), t.execLater(deleteSignal, id+"x")`,
	},
	{
		desc: "a release begins while a request of a wait's hook is sent", test: "TestReleaseAwaitsRequestsOfWaits",
		file: "hooks/runner/event.go", pkg: "release",
		old: `return isEventCommand(r) || r.Point.Rule().OfWait }`,
		new: `return isEventCommand(r) }`,
	},
	{
		desc: "a release does not look for the hooks of waits", test: "TestReleaseAwaitsRequestsOfWaits",
		file: "release/steps.go",
		old:  `	if op.container.EventCommands || op.hadWaits {`,
		new:  `	if op.container.EventCommands {`,
	},
	{
		desc: "a request of a wait that does not end taints the container", test: "TestReleaseAwaitsRequestsOfWaits",
		file: "hooks/runner/event.go", pkg: "release",
		old: `		if i := slices.IndexFunc(runs, isEventCommand); i >= 0 {`,
		new: `		if i := slices.IndexFunc(runs, delaysFlow); i >= 0 {`,
	},
	{
		desc: "a server that missed the end of a claim runs its hooks on", test: "TestMissedEndOfClaim",
		file: "wait/service.go",
		old: `		cancel(errCancelled)
	}
	for`,
		new: `		_ = cancel
	}
	for`,
	},
	{
		desc: "a list ends the hooks of open waits", test: "TestMissedEndOfClaim",
		file: "wait/service.go",
		old:  `		delete(ended, o.ID)`,
		new:  `		_ = o`,
	},
	{
		desc: "signals are in the order of their ids", test: "TestSQLite",
		file: "store/signals.go", pkg: "store",
		old: `ORDER BY created_at LIMIT 1`,
		new: `ORDER BY id LIMIT 1`,
	},
	{
		desc: "a field that is not a duration is not named", test: "TestDurations",
		file: "api/page.go",
		old:  `Location: field.String(), Message`,
		new:  `Location: "body", Message`,
	},
	{
		desc: "what is neither text nor a number is refused as a schema", test: "TestDurations",
		file: "api/problem.go",
		old:  `			d.Message = durationForms`,
		new:  `			_ = durationForms`,
	},
	{
		desc: "lists of waits have what tenants wrote", test: "TestWaitListsOmitContent",
		file: "api/waits.go",
		old:  `Limit: in.Limit + 1, NoContent: true,`,
		new:  `Limit: in.Limit + 1,`,
	},
	{
		desc: "a list reads what tenants wrote to waits", test: "TestSQLite",
		file: "store/waits.go", pkg: "store",
		old: `	if f.NoContent {`,
		new: `	if f.NoContent && f.Limit < 0 {`,
	},
	{
		desc: "a hook of a wait starts after the end of its claim", test: "TestSQLite",
		file: "store/runs.go", pkg: "store",
		old: `	if r.Point.Rule().OfWait {
		return permitWaitRun(t, r)
	}
`,
		new: ``,
	},
	{
		desc: "a database that does not answer keeps a caller whose time has ended", test: "TestFollowIsBounded",
		file: "wait/service.go",
		old:  `time.AfterFunc(lastReadTimeout,`,
		new:  `time.AfterFunc(time.Hour,`,
	},
	{
		desc: "a caller whose time has ended does not get the record", test: "TestFollowIsBounded",
		file: "wait/service.go",
		old: `context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context`,
		new: `context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context`,
	},
	{
		desc: "a wait fails because the database does not answer at the end of the caller's time", test: "TestFollowIsBounded",
		file: "wait/service.go",
		old:  `if err != nil && before.ID != "" && reading.Err() != nil {`,
		new:  `if false {`,
	},
	{
		desc: "the waits of all tenants are read for those of one", test: "TestHotQueriesUseIndexes",
		file: "store/migrations/00029_listed_waits.sql", pkg: "store",
		old: `CREATE INDEX waits_tenant ON waits (tenant, id);`,
	},
	{
		desc: "the waits of all workloads are read for those of one", test: "TestHotQueriesUseIndexes",
		file: "store/migrations/00029_listed_waits.sql", pkg: "store",
		old: `CREATE INDEX waits_workload ON waits (workload, id);`,
	},
}
