package main

// deliveries are mutations of package delivery.
var deliveries = []mutation{
	{
		desc: "an event that a delivery caused is delivered", test: "TestDepth",
		file: "delivery/match.go",
		old:  `	if e.Depth > 0 {`,
		new:  `	if e.Depth > 9 {`,
	},
	{
		desc: "an event is delivered to a hook for its type with other data", test: "TestEventNames",
		file: "delivery/match.go",
		old:  `h.Matches(string(e.Type), e.Data)`,
		new:  "h.Matches(string(e.Type), []byte(`{\"oom_killed\":true}`))",
	},
	{
		desc: "a replay delivers events that are not for the hook", test: "TestEventNames",
		file: "delivery/operations.go",
		old:  `!h.Matches(string(e.Type), e.Data)`,
		new:  `h.Disabled`,
	},
	{
		desc: "an event from before the file is delivered", test: "TestNewHookSeesNoEarlierEvents",
		file: "delivery/match.go",
		old:  `if ok && e.Seq > since && `,
		new:  `if ok && e.Seq > since-99 && `,
	},
	{
		desc: "hooks are those of before a change of the file", test: "TestHookChanges",
		file: "delivery/service.go",
		old:  `{ s.applied.invalidate(e.Workload); s.setActive() }`,
		new:  `{ s.setActive() }`,
	},
	{
		desc: "a delivery does not wait for the time of its next attempt", test: "TestRetries",
		file: "delivery/attempt.go",
		old:  `; wait > 0 {`,
		new:  `; wait > time.Minute {`,
	},
	{
		desc: "all lanes of a hook are attempted at once", test: "TestHangingReceiver",
		file: "delivery/service.go",
		old:  `PerGroup: perHook,`,
		new:  `PerGroup: slots,`,
	},
	{
		desc: "a command whose outcome is unknown runs again", test: "TestKilledAtEachStep",
		file: "delivery/policy.go",
		old:  `mayRetry = !inContainer || h.Idempotent && res.Gone`,
		new:  `mayRetry = !inContainer || res.Gone`,
	},
	{
		desc: "a request whose outcome is unknown is not sent again", test: "TestKilledAtEachStep",
		file: "delivery/policy.go",
		old:  `mayRetry = !inContainer || h.Idempotent && res.Gone`,
		new:  `mayRetry = h.Idempotent && res.Gone`,
	},
	{
		desc: "a server performs the attempt of another one again", test: "TestKilledAtEachStep",
		file: "delivery/attempt.go",
		old:  `.WaitResult(work, o.earlierAttempt())`,
		new:  `.Execute(work, o.earlierAttempt())`,
	},
	{
		desc: "an attempt is performed before its start is recorded", test: "TestKilledAtEachStep",
		file: "delivery/attempt.go",
		old:  `	permission, err := s.store.UpdateDelivery(`,
		new: `	_ = s.o.Executors.Of(o.run.Kind).Execute(work, o.attempt)
	permission, err := s.store.UpdateDelivery(`,
	},
	{
		desc: "a server makes as many attempts at once as there are hooks", test: "TestAttemptsAtOnce",
		file: "delivery/service.go",
		old:  `s.keys.Run(ctx, slots, s.deliver)`,
		new:  `s.keys.Run(ctx, 2*slots, s.deliver)`,
	},
	{
		desc: "the hooks of one workload delay those of another", test: "TestWorkloadsShareSlots",
		file: "delivery/service.go",
		old:  `Owner: Key.owner, `,
		new:  ``,
	},
	{
		desc: "events are read although no workload has event hooks", test: "TestNoHooksCostNothing",
		file: "delivery/service.go",
		old: `	if !isActive {
		s.setInactive(generation)`,
		new: `	if isActive && false {
		s.setInactive(generation)`,
	},
	{
		desc: "attempts of event hooks are not counted", test: "TestAttemptsOfDeliveriesAreCounted", pkg: "cmd/hostler",
		file: "cmd/hostler/metrics_linux.go",
		old:  `	if err != nil || t.Run == nil || t.Run.State == hooks.Skipped {`,
		new:  `	if true {`,
	},
	{
		desc: "what waits for a debounce is lost behind the last event of a container", test: "TestDebounce",
		file: "delivery/match.go",
		old: `	case activity.ContainerDestroyed:
		return []string{e.Container}`,
		new: `	case activity.ContainerDestroyed:
		return nil`,
	},
	{
		desc: "an event takes the place of one of an earlier claim", test: "TestDebounceEndsWithClaim", pkg: "delivery",
		file: "store/deliveries.go",
		old:  `SET state = 'queued', due_at = $4 WHERE `,
		new:  `SET due_at = $4 WHERE `,
	},
	{
		desc: "an event that takes the place of one that is about to be attempted is lost", test: "TestDebounceDuringAttempt", pkg: "delivery",
		file: "store/deliveries.go",
		old:  `if seq != m.Seq {`,
		new:  `if seq < m.Seq {`,
	},
}

// deliveryFlows are mutations of the flows that commands of event hooks must not
// outlive.
var deliveryFlows = []mutation{
	{
		desc: "a flow does not end a command that was taken over", test: "TestReleaseEndsTakenOverCommands", pkg: "delivery",
		file: "delivery/attempt.go",
		old: `		// Before the adoption: a flow that begins after that cancels it.
		defer s.addCommand(o.run, cancel)()
`,
		new: ``,
	},
	{
		desc: "a command whose flow began before the takeover runs on", test: "TestReleaseEndsTakenOverCommands", pkg: "delivery",
		file: "store/deliveries.go",
		old:  `isPermitted = !errors.Is(err, delivery.ErrClaimEnded)`,
		new:  `isPermitted = true`,
	},
	{
		desc: "a server that stops ends the commands that it has taken over", test: "TestStopEndsNoTakenOverCommand", pkg: "delivery",
		file: "delivery/attempt.go",
		old: `	o.run = runs[len(runs)-1]
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))`,
		new: `	o.run = runs[len(runs)-1]
	work, cancel := context.WithCancelCause(ctx)`,
	},
	{
		desc: "a release does not wait for the commands of event hooks", test: "TestLateCommandRunsInNoOtherClaim", pkg: "delivery",
		file: "hooks/runner/event.go",
		old:  `		if !slices.ContainsFunc(runs, delaysFlow) {`,
		new:  `		if len(runs) < 9 || !slices.ContainsFunc(runs, delaysFlow) {`,
	},
	{
		desc: "a claim does not wait for the commands of event hooks", test: "TestCommandRunsInNoOtherClaim", pkg: "delivery",
		file: "claim/prepare.go",
		old:  `	if !a.claim.EventCommands {`,
		new:  `	if true {`,
	},
	{
		desc: "a flow does not learn of the commands of event hooks", test: "TestCommandRunsInNoOtherClaim", pkg: "delivery",
		file: "store/deliveries.go",
		old:  `SET event_commands = 1 WHERE id = $1 RETURNING`,
		new:  `SET event_commands = 0 WHERE id = $1 RETURNING`,
	},
	{
		desc: "a container is claimed in which a command may still arrive", test: "TestCommandRunsInNoOtherClaim", pkg: "delivery",
		file: "hooks/runner/event.go",
		old:  `run.Claim == "" && run.State == hooks.Unknown`,
		new:  `run.Claim == "" && run.State == hooks.Running`,
	},
	{
		desc: "a container is removed while a command of an event hook is ended", test: "TestRemovalAwaitsCommands", pkg: "delivery",
		file: "pool/provisioner.go",
		old: `		EventCommands: c.EventCommands,
`,
		new: ``,
	},
	{
		desc: "a container without pre_destroy hooks is removed while a command is ended", test: "TestRemovalAwaitsCommands", pkg: "delivery",
		file: "hooks/runner/runner.go",
		old:  `	if len(hs) == 0 && !s.EventCommands && !s.EndsOthers {`,
		new:  `	if len(hs) == 0 && !s.EndsOthers {`,
	},
	{
		desc: "a hook for events has a command that can never run", test: "TestParseRejectsHooks", pkg: "workload",
		file: "workload/events.go",
		old: `	activity.ClaimActivated,
`,
		new: `	activity.ClaimRequested, activity.ClaimActivated,
`,
	},
	{
		desc: "a canceled command that may still run is reported as ended", test: "TestCancelledExecUnconfirmed",
		file: "runtime/shim/exec.go",
		old:  `errors.Is(err, runtime.ErrContainerExited) || errors.Is(err, runtime.ErrUnavailable) {`,
		new:  `errors.Is(err, runtime.ErrContainerExited) {`,
	},
	{
		desc: "a command that did not confirm its end is one that was canceled", test: "TestUnconfirmedCancel", pkg: "delivery",
		file: "delivery/attempt.go",
		old:  `res.State == hooks.Cancelled && errors.Is(res.Err, runtime.ErrUnavailable)`,
		new:  `res.State == hooks.Cancelled && errors.Is(res.Err, runtime.ErrTainted)`,
	},
	{
		desc: "an idle container in which a command may still arrive is kept", test: "TestUnconfirmedCancel", pkg: "delivery",
		file: "delivery/attempt.go",
		old:  `run.Claim == "" && run.State == hooks.Unknown && d.State != Scheduled`,
		new:  `run.Claim != "" && run.State == hooks.Unknown && d.State != Scheduled`,
	},
	{
		desc: "the next attempt has the fence of the server that was taken over from", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `		return t.execLater(raiseIdleFence, r.ID)`,
		new:  `		return nil`,
	},
	{
		desc: "a takeover ends the attempts of deliveries", test: "TestTakeoverLeavesDeliveries", pkg: "delivery",
		file: "release/recover.go",
		old:  `	if r.Event != "" && !r.IsTest() {`,
		new:  `	if r.Event == "x" {`,
	},
	{
		desc: "commands of event hooks run on when a release begins", test: "TestReleaseEndsCommands",
		file: "delivery/service.go",
		old:  `return c.claim != "" && c.claim == e.Claim`,
		new:  `return c.claim == ""`,
	},
}

// deliveryStores are mutations of how the store keeps deliveries.
var deliveryStores = []mutation{
	{
		desc: "an event hook sees events from before its file was applied", test: "TestSQLite",
		file: "store/eventhooks.go",
		old:  `			all[name] = last`,
		new:  `			all[name] = 0`,
	},
	{
		desc: "the log is read although no workload has event hooks", test: "TestSQLite",
		file: "store/eventhooks.go",
		old:  `	if !c.before || c.after {`,
		new:  `	if true {`,
	},
	{
		desc: "the cursor moves before the deliveries are added", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `		return func(t *tx) error { return addDeliveries(t, changes) }, err`,
		new:  `		return func(t *tx) error { _ = addDeliveries(t, changes[:len(changes)/2]); return nil }, err`,
	},
	{
		desc: "retention removes events that are still to be delivered", test: "TestSQLite",
		file: "store/prune.go",
		old:  `		end = min(end, live.Int64-1)`,
		new:  `		end = max(end, live.Int64-1)`,
	},
	{
		desc: "a delivery becomes live although its event was removed", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `	if from.IsLive() || !m.State.IsLive() {`,
		new:  `	if true {`,
	},
	{
		desc: "the next delivery is not the one of the first event", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `ORDER BY seq, id LIMIT 1`,
		new:  `ORDER BY id LIMIT 1`,
	},
	{
		desc: "an event of a delivery is delivered", test: "TestSQLite",
		file: "store/runevent.go",
		old:  `		depth = 1 // only events of depth 0 are delivered`,
		new:  `		depth = 0 // only events of depth 0 are delivered`,
	},
	{
		desc: "a group of transitions includes one that must not be performed", test: "TestPostgres",
		file: "store/deliverygroup.go",
		old:  `	if n != int64(len(group)) {`,
		new:  `	if n < 0 {`,
	},
	{
		desc: "a group ends attempts that have ended", test: "TestPostgres",
		file: "store/deliverygroup.go",
		old: `	OR w.ends AND d.state = 'running' AND d.owner = $4
		AND EXISTS`,
		new: `	OR w.ends AND d.owner = $4
		OR EXISTS`,
	},
	{
		desc: "the start of a command is performed without a look at its claim", test: "TestIsGroupable",
		file: "store/deliverygroup.go",
		old:  `m.Run == nil || m.Run.Kind.Rule().InContainer || `,
		new:  `m.Run == nil || `,
	},
	{
		desc: "a caller that is gone ends the change of the others", test: "TestDeliveryGroups",
		file: "store/deliverygroup.go",
		old:  `g.writer.update(context.WithoutCancel(ctx), `,
		new:  `g.writer.update(ctx, `,
	},
	{
		desc: "the last transitions wait for a group that no caller performs", test: "TestDeliveryGroups",
		file: "store/deliverygroup.go",
		old: `		g.waiting[0].isFirst = true
`,
		new: ``,
	},
	{
		desc: "a transition that cannot be stored fails its group", test: "TestDeliveryGroups",
		file: "store/deliverygroup.go",
		old:  `if err != nil && n > 1 && `,
		new:  `if err != nil && n > groupLimit && `,
	},
	{
		desc: "a caller leaves a change that has begun", test: "TestDeliveryGroups",
		file: "store/deliverygroup.go",
		old: `	if at < 0 || c.isFirst {
		return false`,
		new: `	if at < 0 || c.isFirst {
		return true`,
	},
	{
		desc: "a server changes a delivery that another one attempts", test: "TestPostgresDeliveryOwners",
		file: "store/deliveries.go",
		old:  `	if from == delivery.Running && owner != t.owner {`,
		new:  `	if from == delivery.Running && owner == "" {`,
	},
	{
		desc: "a command of an event hook starts in a claim that has ended", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `string(claim.Active), string(claim.Pending)`,
		new:  `state, string(claim.Pending)`,
	},
	{
		desc: "a command of an event hook starts in another tenant's container", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `	return fence, permitState(err, state, wanted, earlier)`,
		new:  `	return fence, permitState(err, wanted, wanted, earlier)`,
	},
	{
		desc: "a request of an event hook ends with its claim", test: "TestSQLite",
		file: "store/runs.go",
		old:  "	inContainerCondition = ` AND (event = '' OR kind IN ('command', 'script'))`",
		new:  "	inContainerCondition = ``",
	},
	{
		desc: "a debounced event is delivered for each event", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `		if err != nil || n > 0 {`,
		new:  `		if err != nil || n > 9 {`,
	},
	{
		desc: "a steady stream delays a debounced event without end", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `CASE WHEN created_at + $9 < $8 THEN created_at + $9 ELSE $8 END`,
		new:  `CASE WHEN created_at + $9 < 0 THEN created_at + $9 ELSE $8 END`,
	},
	{
		desc: "a full queue discards the events of Hostler", test: "TestSQLite",
		file: "store/deliverylists.go",
		old:  `AND priority <= $3 ORDER`,
		new:  `AND priority >= 0 * $3 ORDER`,
	},
	{
		desc: "a workload is removed before its events are delivered", test: "TestSQLite",
		file: "store/eventhooks.go",
		old:  `		if behind > 0 {`,
		new:  `		if behind > 9 {`,
	},
	{
		desc: "a workload is removed before its deliveries end", test: "TestSQLite",
		file: "store/eventhooks.go",
		old:  `	if live > 0 {`,
		new:  `	if live > 9 {`,
	},
}
