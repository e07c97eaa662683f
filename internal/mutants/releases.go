package main

// releases are changes of package release.
var releases = []mutation{
	{
		desc: "a wish to discard that comes with the release is not recorded with it", test: "TestDiscardIsRecordedWithRelease",
		file: "release/steps.go",
		old: `				c.Discard = c.Discard || op.discard.Load()
`,
	},
	{
		desc: "a wish to discard that comes later is obeyed and not recorded", test: "TestDiscardIsDurable",
		file: "release/steps.go",
		old: `		if err := op.recordDiscard(ctx, op.claim.ID); err != nil {
			return err
		}
		op.claim.Discard = true
`,
		new: `		op.claim.Discard = true
`,
	},
	{
		desc: "a container is released that is another claim's by now", test: "TestReleaseRejectsContainerOfAnotherClaim",
		file: "release/steps.go",
		old:  `	if op.container.Claim != op.claim.ID {`,
		new:  `	if op.container.Claim == "nobody" {`,
	},
	{
		desc: "a discarded container goes back to the pool when the wish came last", test: "TestDiscardJoinsRunningRelease",
		file: "release/steps.go",
		old: `			case c.Discard:
				destroy(discardedReason)
`,
	},
	{
		desc: "a container that fell ill during its release goes back to the pool", test: "TestUnhealthyDuringReleaseIsDestroyed",
		file: "release/steps.go",
		old: `			case c.Health == string(pool.Exited), c.Health == string(pool.Unhealthy):
				destroy("it is " + c.Health)
`,
	},
	{
		desc: "a container whose engine is away is given up", test: "TestEngineUnavailableAtRelease",
		file: "release/steps.go",
		old: `	if errors.Is(err, runtime.ErrUnavailable) {
		// Nothing is known`,
		new: `	if err == nil && ctx.Err() != nil {
		// Nothing is known`,
	},
	{
		desc: "a container of an old revision goes back to the pool", test: "TestOutdatedContainerIsDestroyed",
		file: "release/steps.go",
		old: `	case pool.OutdatedReason(op.container, record.Revision, op.rt.Protocols().Current) != "":
		return pool.OutdatedReason(op.container, record.Revision, op.rt.Protocols().Current), nil
`,
	},
	{
		desc: "a container of which a hook may still run goes back to the pool", test: "TestPreReleaseFails",
		file: "release/steps.go",
		old: `	if errors.Is(err, runtime.ErrTainted) {
		op.disposeReason = "a process of a hook may still run"
	}
`,
	},
	{
		desc: "the restart of a release carries no fence", test: "TestFenceGrowsWithEachFlow",
		file: "release/steps.go",
		old:  `op.rt.Restart(ctx, op.claim.Container, op.claim.ContainerFence)`,
		new:  `op.rt.Restart(ctx, op.claim.Container, 1)`,
	},
	{
		desc: "a release that succeeds leaves the failures before it on record", test: "TestFailedUploadRetainsContainer",
		file: "release/steps.go",
		old: `			c.ReleasedAt, c.Failures, c.RetryAt, c.FailureReason, c.FailedAt = &now, 0, nil, "", nil
`,
		new: `			c.ReleasedAt = &now
`,
	},
	{
		desc: "a container does not know which snapshot it holds after its release", test: "TestOutdatedAffinityContainerIsWiped",
		file: "release/steps.go",
		old: `				c.Snapshot = snapshotID
`,
		new: `				c.Snapshot = ""
`,
	},
	{
		desc: "a tenant's fault is tried once more than it may be", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old:  `failures >= maxTenantAttempts`,
		new:  `failures > maxTenantAttempts`,
	},
	{
		desc: "what is stale is tried again", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old:  `reason == claim.FailedStale || `,
	},
	{
		desc: "a release that failed is kept back though its tenant wants nothing kept", test: "TestDiscardRacesFailedUpload",
		file: "release/upload.go",
		old: `		If: func(c claim.Claim) bool { return !c.Discard },
		Set: func(c *claim.Claim) {
			c.Reason, c.RetryAt`,
		new: `		Set: func(c *claim.Claim) {
			c.Reason, c.RetryAt`,
	},
	{
		desc: "each failure starts the time anew after which the state is given up", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old: `op.claim.Failures+1, op.claim.FailedAt
`,
		new: `op.claim.Failures+1, &now
`,
	},
	{
		desc: "the state is given up though its failure is the sink's by then", test: "TestSinkFailureIsNotGivenUp",
		file: "release/upload.go",
		old:  `now.State == claim.ReleaseFailed && now.FailureReason == claim.FailedByTenant && now.Failures`,
		new:  `now.State == claim.ReleaseFailed && now.Failures`,
	},
	{
		desc: "a container that disappeared is tried again", test: "TestReleaseOfMissingContainer",
		file: "release/upload.go",
		old: `		op.disposeReason, op.lossReason = "it disappeared", "the container disappeared: "+err.Error()
		return nil
`,
		new: `		return err
`,
	},
	{
		desc: "a container that ended is not started to read its files", test: "TestUploadFromExitedContainer",
		file: "release/upload.go",
		old:  `	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrContainerExited) {`,
		new:  `	if errors.Is(err, runtime.ErrContainerExited) && err == nil {`,
	},
	{
		desc: "a container that was started to read its files goes back to the pool", test: "TestContainerStartedForUploadIsDestroyed",
		file: "release/upload.go",
		old: `		op.disposeReason = "it exited before its release"
`,
	},
	{
		desc: "nobody is told that a tenant's state is lost", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old: `	return []activity.Event{{
		Type: activity.ClaimStateLost,`,
		new: `	return []activity.Event{{
		Type: activity.ClaimReleasing,`,
	},
	{
		desc: "hook runs of a removal under way are abandoned", test: "TestPreDestroyIsResumed",
		file: "release/recover.go", pkg: "pool",
		old: `		return c.State == pool.Destroying, err
`,
		new: `		return c.State == pool.Gone, err
`,
	},
	{
		desc: "a claim is released though its tenant showed itself while the reaper was on its way", test: "TestTouchRacesIdleRelease",
		file: "release/idle.go",
		old: `	c, err := s.store.Claim(ctx, c.ID)
	if err != nil || !idle(c) {
		return err
	}
	_, err = s.Release(ctx, c.ID, Request{Reason: "tenant idle for " + ttl.String(), onlyIf: idle})
`,
		new: `	c, err := s.store.Claim(ctx, c.ID)
	if err != nil {
		return err
	}
	_ = idle
	_, err = s.Release(ctx, c.ID, Request{Reason: "tenant idle for " + ttl.String()})
`,
	},
	{
		desc: "one workload may take all the places of a loop", test: "TestStuckReleasesDoNotBlockIdleOrRetried",
		file: "release/tasks.go",
		old:  ` || ofWorkload >= t.limit/2 || ofWorkload > 0 && len(t.running) >= t.limit-t.limit/4 {`,
		new:  ` {`,
	},
	{
		desc: "one workload may take one place too many of a loop", test: "TestKeyedTasksFairness",
		file: "release/tasks.go",
		old:  `ofWorkload >= t.limit/2 ||`,
		new:  `ofWorkload > t.limit/2 ||`,
	},
	{
		desc: "the answer of a release does not have its warnings", test: "TestUploadAfterFailedPreRelease",
		file: "release/steps.go",
		old: `			c.Warnings = append(c.Warnings, op.warnings...)
`,
	},
	{
		desc: "a container that is too old is started for its pre_destroy hooks", test: "TestProtocolTooOldCanBeDiscarded",
		file: "release/steps.go",
		old: ` &&
		!op.rt.Protocols().IsTooOld(op.container.Protocol) // this server cannot start it
`,
		new: `
`,
	},
}
