package main

// claims are mutations of packages claim and snapshot.
var claims = []mutation{
	{
		desc: "another tenant's container is not wiped", test: "TestClaimStepOrder",
		file: "claim/plan.go",
		old:  `{Recycled, false, false, false}: {wipe: true, `,
		new:  `{Recycled, false, false, false}: {`,
	},
	{
		desc: "a container with an interrupted wipe returns to the pool when the engine is unavailable", test: "TestInterruptedStepDestroysContainer",
		file: "claim/prepare.go",
		old: `	a.changed = true
	if err := a.rt.Wipe`,
		new: `	if err := a.rt.Wipe`,
	},
	{
		desc: "a container with an interrupted restart returns to the pool when the engine is unavailable", test: "TestInterruptedStepDestroysContainer",
		file: "claim/prepare.go",
		old: `	a.changed, a.restarted = true, true
	a.pools.Health.MarkRestarted(a.claim.Container)
`,
		new: `	a.restarted = true
	a.pools.Health.MarkRestarted(a.claim.Container)
`,
	},
	{
		desc: "a used container that is returned counts as never used", test: "TestEngineUnavailableAtClaim",
		file: "claim/rollback.go",
		old: `	isFresh := a.claim.Source == Fresh
`,
		new: `	isFresh := true
`,
	},
	{
		desc: "a fresh container that is returned counts as used", test: "TestReturnedContainerIsFresh",
		file: "claim/rollback.go",
		old: `	isFresh := a.claim.Source == Fresh
`,
		new: `	isFresh := false
`,
	},
	{
		desc: "a wipe is not recorded", test: "TestClaimStepOrder",
		file: "claim/prepare.go",
		old: `	_, err := a.pools.RecordWiped(ctx, a.claim.Container, a.claim.Tenant)
	return err
`,
		new: `	return nil
`,
	},
	{
		desc: "a wipe carries no fence", test: "TestClaimStepOrder",
		file: "claim/prepare.go",
		old:  `a.rt.Wipe(ctx, a.claim.Container, a.claim.ContainerFence)`,
		new:  `a.rt.Wipe(ctx, a.claim.Container, 1)`,
	},
	{
		desc: "the restart of a claim carries no fence", test: "TestClaimStepOrder",
		file: "claim/prepare.go",
		old:  `a.rt.RestartWith(ctx, a.claim.Container, a.claim.ContainerFence, a.request.Environment)`,
		new:  `a.rt.RestartWith(ctx, a.claim.Container, 1, a.request.Environment)`,
	},
	{
		desc: "a snapshot that became current after seeding is downloaded over the seed", test: "TestSnapshotChangedAfterSeed",
		file: "claim/prepare.go",
		old:  `	if err == nil && a.needsCompare() && transfer.Snapshot.ID != a.latest.ID {`,
		new:  `	if err == nil && a.needsCompare() && transfer.Snapshot.ID == "none" {`,
	},
	{
		desc: "the seed covers what the tenant has removed", test: "TestSeedAndState",
		file: "claim/prepare.go",
		old: `	if a.hasSyncOnClaim() {
		covered =`,
		new: `	if false {
		covered =`,
	},
	{
		desc: "the main process is not restarted after seeding", test: "TestRestartAfterSeeding",
		file: "claim/prepare.go",
		old: `	a.changed = a.changed || seeded || err != nil
`,
		new: `	a.changed = a.changed || seeded && err != nil
`,
	},
	{
		desc: "an upload counts although the claim has another container by then", test: "TestUploadRejectsAnotherContainer",
		file: "claim/statesync.go",
		old:  `(current.State != c.State || current.Container != c.Container)`,
		new:  `(current.State != c.State)`,
	},
	{
		desc: "an upload counts although the state is discarded", test: "TestDiscardOnPeerDuringUpload",
		file: "claim/statesync.go", pkg: "release",
		old: `	if err == nil && current.Discard && !c.Discard {`,
		new: `	if err == nil && current.Discard && c.Discard {`,
	},
	{
		desc: "an archive counts without a check of the claim after it was read", test: "TestDiscardOnPeerDuringUpload",
		file: "claim/verified.go", pkg: "release",
		old: `		if verifyErr := s.verify(); verifyErr != nil {
			return nil, verifyErr
		}
`,
	},
	{
		desc: "a state that is too large counts as an error of the sink", test: "TestUploadFailureReason",
		file: "claim/errors.go",
		old:  `snapshot.ErrContainer, snapshot.ErrTooLarge, `,
		new:  `snapshot.ErrContainer, `,
	},
	{
		desc: "a new claim overtakes the waiting ones", test: "TestWaitQueueNoOvertaking",
		file: "claim/reserve.go",
		old: `	queued := a.pools.Queue.Waiting(a.claim.Workload) > 0
`,
		new: `	queued := false
`,
	},
	{
		desc: "a waiting claim does not follow a new revision", test: "TestWaitingClaimsFollowTheNewRevision",
		file: "claim/reserve.go",
		old: `	if a.claim.State == "" {
		return nil // this`,
		new: `	if a.claim.State != Active {
		return nil // this`,
	},
	{
		desc: "a caller who cancels keeps its claim from another container", test: "TestCallerCancelsBeforeAnotherContainer",
		file: "claim/reserve.go",
		old:  `Current(context.WithoutCancel(ctx), a.claim.Workload)`,
		new:  `Current(ctx, a.claim.Workload)`,
	},
	{
		desc: "waiting claims keep tenants from their own containers", test: "TestWaitingClaimDoesNotBlockOwnContainers",
		file: "claim/reserve.go",
		old:  `isKept := a.current.Pool.Reuse == workload.ReuseSameTenant`,
		new:  `isKept := a.current.Pool.Reuse == workload.Reuse("none")`,
	},
	{
		desc: "a new claim overtakes the waiting ones where containers are kept", test: "TestIdleContainerIsNotReserved",
		file: "claim/reserve.go",
		old:  `, OwnOnly: queued,`,
		new:  `,`,
	},
	{
		desc: "a draining pool gives containers to their tenants", test: "TestIdleContainerIsNotReserved",
		file: "claim/reserve.go",
		old:  `EnqueueOnly: a.record.Draining || queued`,
		new:  `EnqueueOnly: queued`,
	},
	{
		desc: "a claim that is released during a read has failed for another reason", test: "TestAbortDuringRead",
		file: "claim/reserve.go",
		old:  `errors.Is(err, ctx.Err()) {`,
		new:  `errors.Is(err, pool.ErrFull) {`,
	},
	{
		desc: "a caller who joined waits for its whole wait time again", test: "TestJoinerWaitsNoLongerThanItsWait",
		file: "claim/service.go",
		old:  `max(time.Until(deadline), 1)`,
		new:  `max(r.Wait, 1)`,
	},
	{
		desc: "a caller whose wait time has elapsed waits for a container that is being created", test: "TestJoinerWaitsNoLongerThanItsWait",
		file: "claim/service.go",
		old:  `max(time.Until(deadline), 1)`,
		new:  `max(time.Until(deadline), 0)`,
	},
	{
		desc: "a claim can start after the service was closed", test: "TestNothingBeginsAfterClose",
		file: "claim/service.go",
		old:  `s.calls.Close(cause)`,
		new:  `s.calls.CancelAll(cause)`,
	},
	{
		desc: "a claim after the service was closed takes a container", test: "TestNothingBeginsAfterClose",
		file: "claim/inflight.go",
		old: `	if err := context.Cause(call.Context()); err != nil {
`,
		new: `	if err := context.Cause(call.Context()); err == ErrAborted {
`,
	},
	{
		desc: "an upload can start after the service was closed", test: "TestNothingBeginsAfterClose",
		file: "claim/statesync.go",
		old: `	ss.closed = cause
`,
	},
	{
		desc: "a claim tries one container too many", test: "TestClaimTriesAtMostThreeContainers",
		file: "claim/steps.go",
		old:  `attempts < maxContainers &&`,
		new:  `attempts <= maxContainers &&`,
	},
	{
		desc: "a claim tries one container too few", test: "TestClaimTriesAtMostThreeContainers",
		file: "claim/steps.go",
		old:  `attempts < maxContainers &&`,
		new:  `attempts+1 < maxContainers &&`,
	},
	{
		desc: "the sweep fails claims of other servers", test: "TestSweepReadsAllPages",
		file: "claim/sweep.go",
		old:  `!s.IsOwnedByPeer(c) && s.findCall(c.ID) == nil`,
		new:  `s.findCall(c.ID) == nil`,
	},
	{
		desc: "a claim that was taken over runs its hooks although none had started", test: "TestCrashBeforeHooks",
		file: "claim/recover.go",
		old: `	if len(started) == 0 {
`,
		new: `	if started == nil {
`,
	},
	{
		desc: "the snapshot of a container is not recorded when its claim becomes active", test: "TestContainerRecordsSnapshot",
		file: "claim/prepare.go",
		old: `		if snapshotID != "" {
			c.Snapshot`,
		new: `		if snapshotID == "none" {
			c.Snapshot`,
	},
	{
		desc: "an abort does not wait for the claim in progress", test: "TestAbortRecordsEndOfClaim",
		file: "claim/inflight.go",
		old: `		if err := call.Wait(ctx); err != nil {
			return err
		}
	}
	// If the call`,
		new: `	}
	// If the call`,
	},
	{
		desc: "slow uploads that wait for each other are all aborted", test: "TestSlowContainersMakeProgress",
		file: "snapshot/quota.go",
		old:  `	if t.slow == nil && req.size <= t.total/2 {`,
		new:  `	if t.slow == nil && req.size < 0 {`,
	},
	{
		desc: "an upload may be slow for any time while others wait", test: "TestContainerSlowForLong",
		file: "snapshot/quota.go",
		old:  `	if req.waited += waited; req.waited >= maxSlow {`,
		new:  `	if req.waited += waited; req.waited < 0 {`,
	},
	{
		desc: "after one slow upload no other may be slow", test: "TestSlowContainersMakeProgress",
		file: "snapshot/quota.go",
		old: `	if t.slow == req {
		t.slow = nil
	}
`,
	},
	{
		desc: "an active claim can fail", test: "TestDiagram",
		file: "claim/transition.go",
		old: `	{Name: fail, From: Pending, To: Failed, Event: activity.ClaimFailed},
`,
		new: `	{Name: fail, From: Pending, To: Failed, Event: activity.ClaimFailed},
	{Name: fail, From: Active, To: Failed, Event: activity.ClaimFailed},
`,
	},
	{
		desc: "storage accepts any change of a claim's state", test: "TestSQLite",
		file: "store/claims.go",
		old:  `	if !before.State.CanBecome(m.To) {`,
		new:  `	if before.State == "" {`,
	},
	{
		desc: "storage accepts any change of a container's state", test: "TestSQLite",
		file: "store/containers.go",
		old:  `	if !before.State.CanBecome(m.To) {`,
		new:  `	if before.State == "" {`,
	},
	{
		desc: "an outdated container of the tenant's own is not wiped", test: "TestPlanRules",
		file: "claim/plan.go",
		old:  `{Affinity, true, true, false}:   {wipe: true, `,
		new:  `{Affinity, true, true, false}:   {`,
	},
	{
		desc: "the tenant's state is downloaded over its own files", test: "TestPlanRules",
		file: "claim/plan.go",
		old:  `{Affinity, true, false, false}:  {},`,
		new:  `{Affinity, true, false, false}:  {download: true},`,
	},
	{
		desc: "a wiped container is not restarted with restart: never", test: "TestPlanRules",
		file: "claim/plan.go",
		old: `; p.wipe || p.update {
		p.restart = workload.RestartAlways
	}
`,
		new: `; p.wipe || p.update {
		p.restart = policy
	}
`,
	},
	{
		desc: "compare does not change the plan", test: "TestOutdatedAffinityContainerIsUpdated",
		file: "claim/prepare.go", pkg: "release",
		old: `	c.stale = current.ID != container.Snapshot
`,
		new: `	c.stale = false
`,
	},
	{
		desc: "the container of a canceled claim is not given back", test: "TestReturnedContainerIsFresh",
		file: "claim/steps.go",
		old:  `Do: a.reserve, Undo: a.rollback},`,
		new:  `Do: a.reserve},`,
	},
	{
		desc: "a failed step is not undone", test: "TestRunUndoesInReverse",
		file: "internal/flow/flow.go",
		old:  `steps[:i+1], err)`,
		new:  `steps[:i], err)`,
	},
	{
		desc: "a step that waits for the caller ends with the work only", test: "TestCallersContext",
		file: "internal/flow/flow.go",
		old: `		ctx = f.caller
`,
	},
	{
		desc: "a claim is canceled because its own failure is recorded", test: "TestOwnFailureCancelsNothing",
		file: "claim/inflight.go",
		old:  ` && !call.Arg.failing.Load() {`,
		new:  ` {`,
	},
	{
		desc: "the sweep fails claims in progress", test: "TestSweepSkipsClaimsInProgress",
		file: "claim/sweep.go",
		old:  `!s.IsOwnedByPeer(c) && s.findCall(c.ID) == nil`,
		new:  `!s.IsOwnedByPeer(c)`,
	},
	{
		desc: "the work of a call ends with its first caller", test: "TestWorkOutlivesCallers",
		file: "internal/singleflight/singleflight.go",
		old:  `context.WithCancelCause(context.WithoutCancel(ctx))`,
		new:  `context.WithCancelCause(ctx)`,
	},
	{
		desc: "a call can start after the group was closed", test: "TestCancel",
		file: "internal/singleflight/singleflight.go",
		old: `	if g.closed != nil {
		c.cancel(g.closed)
	}
`,
	},
	{
		desc: "a call is shared after its end", test: "TestCallersShareOneCall",
		file: "internal/singleflight/singleflight.go",
		old: `		delete(g.calls, k)
`,
		new: `		_ = k
`,
	},
	{
		desc: "a tenant is idle whose touches cannot be stored", test: "TestTouchRememberedWhenStoreFull",
		file: "claim/service.go", pkg: "release",
		old: `		s.touchFailedAt = now
`,
		new: `		_ = now
`,
	},
	{
		desc: "a canceled touch keeps the claims of others", test: "TestCanceledTouchDoesNotCount",
		file: "claim/service.go", pkg: "release",
		old: ` && !errors.Is(err, ErrClaimNotFound) && ctx.Err() == nil {`,
		new: ` && !errors.Is(err, ErrClaimNotFound) {`,
	},
	{
		desc: "credentials are cut", test: "TestCredentialsAreFile",
		file: "snapshot/credentials.go",
		old:  `name, maxCredentialsSize)`,
		new:  `name, 2*maxCredentialsSize)`,
	},
}
