package main

// releases are mutations of package release.
var releases = []mutation{
	{
		desc: "a discard with the release is not recorded with it", test: "TestDiscardIsRecordedWithRelease",
		file: "release/steps.go",
		old: `			c.Discard = c.Discard || op.discard.Load()
`,
	},
	{
		desc: "a later discard is applied but not recorded", test: "TestDiscardIsDurable",
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
		desc: "a container is released although it belongs to another claim", test: "TestReleaseRejectsContainerOfAnotherClaim",
		file: "release/steps.go",
		old:  `	if op.container.Claim != op.claim.ID {`,
		new:  `	if op.container.Claim == "none" {`,
	},
	{
		desc: "a discarded container returns to the pool when the discard came last", test: "TestDiscardJoinsRunningRelease",
		file: "release/steps.go",
		old:  `discard: c.Discard, health: pool.Health(c.Health)}`,
		new:  `health: pool.Health(c.Health)}`,
	},
	{
		desc: "a container that became unhealthy during its release returns to the pool", test: "TestUnhealthyDuringReleaseIsDestroyed",
		file: "release/steps.go",
		old:  `discard: c.Discard, health: pool.Health(c.Health)}`,
		new:  `discard: c.Discard, health: pool.Healthy}`,
	},
	{
		desc: "a container is destroyed when its engine is unavailable", test: "TestEngineUnavailableAtRelease",
		file: "release/steps.go",
		old: `	if errors.Is(err, runtime.ErrUnavailable) {
		// The state of the container`,
		new: `	if err == nil && ctx.Err() != nil {
		// The state of the container`,
	},
	{
		desc: "a container of an old revision returns to the pool", test: "TestOutdatedContainerIsDestroyed",
		file: "release/steps.go",
		old: `	f.outdated = pool.OutdatedReason(op.container, record.Revision, op.rt.Protocols().Current)
`,
	},
	{
		desc: "a container in which a hook may still run returns to the pool", test: "TestPreReleaseFails",
		file: "release/steps.go",
		old: `	if outcome.Tainted != "" {
		op.unusable = outcome.Tainted
	}
`,
	},
	{
		desc: "the restart of a release carries no fence", test: "TestFenceGrowsWithEachFlow",
		file: "release/upload.go",
		old:  `op.rt.Restart(ctx, op.claim.Container, op.claim.ContainerFence)`,
		new:  `op.rt.Restart(ctx, op.claim.Container, 1)`,
	},
	{
		desc: "a successful release does not reset its failures", test: "TestFailedUploadRetainsContainer",
		file: "release/steps.go",
		old: `		c.ReleasedAt, c.Failures, c.RetryAt, c.FailureReason, c.FailedAt = &now, 0, nil, "", nil
`,
		new: `		c.ReleasedAt = &now
`,
	},
	{
		desc: "the snapshot of a container is not recorded at its release", test: "TestOutdatedAffinityContainerIsUpdated",
		file: "release/disposition.go",
		old: `			c.Snapshot = snapshotID
`,
		new: `			c.Snapshot = ""
`,
	},
	{
		desc: "a release that fails because of its tenant is retried once too often", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old:  `failures >= maxTenantAttempts`,
		new:  `failures > maxTenantAttempts`,
	},
	{
		desc: "a stale state is retried", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old:  `reason == claim.FailedStale || `,
	},
	{
		desc: "a claim is retained although its state is discarded", test: "TestDiscardRacesFailedUpload",
		file: "release/upload.go",
		old: `	retained.If = func(c claim.Claim) bool { return !c.Discard }
`,
	},
	{
		desc: "each failure restarts release_failed_ttl", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old: `op.claim.Failures+1, op.claim.FailedAt
`,
		new: `op.claim.Failures+1, &now
`,
	},
	{
		desc: "a state is dropped although the failure is the sink's by then", test: "TestSinkFailureIsNotGivenUp",
		file: "release/schedule/retries.go", pkg: "release",
		old: `now.State == claim.ReleaseFailed && now.FailureReason == claim.FailedByTenant && now.Failures`,
		new: `now.State == claim.ReleaseFailed && now.Failures`,
	},
	{
		desc: "the upload from a missing container is retried", test: "TestReleaseOfMissingContainer",
		file: "release/upload.go",
		old: `		op.unusable, op.lossReason = "it disappeared", "the container disappeared: "+err.Error()
		return nil
`,
		new: `		return err
`,
	},
	{
		desc: "the state of a container that exits during its upload is not read again", test: "TestContainerThatExitedIsDestroyed",
		file: "release/upload.go",
		old:  `	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrContainerExited) {`,
		new:  `	if errors.Is(err, runtime.ErrContainerExited) && err == nil {`,
	},
	{
		desc: "a container that exits during its upload returns to the pool", test: "TestContainerThatExitedIsDestroyed",
		file: "release/upload.go",
		old: `		op.unusable = exitedReason
		c, _,`,
		new: `		c, _,`,
	},
	{
		desc: "a container that has exited unnoticed returns to the pool", test: "TestContainerThatExitedIsDestroyed",
		file: "release/upload.go",
		old:  `	if status.State == runtime.Exited {`,
		new:  `	if status.State == runtime.Created {`,
	},
	{
		desc: "the loss of a tenant's state has no event", test: "TestReleaseFailureReasons",
		file: "release/upload.go",
		old: `	return []activity.Event{{
		Type: activity.ClaimStateLost,`,
		new: `	return []activity.Event{{
		Type: activity.ClaimReleasing,`,
	},
	{
		desc: "hook runs of a removal in progress are ended", test: "TestPreDestroyIsResumed",
		file: "hooks/point.go", pkg: "pool",
		old: `Place{OfContainer, "destroying"}`,
		new: `Place{OfContainer, "destroyed"}`,
	},
	{
		desc: "a claim is released although its tenant was active just before", test: "TestTouchRacesIdleRelease",
		file: "release/schedule/idle.go", pkg: "release",
		old: `	c, err = s.store.Claim(ctx, c.ID)
	if err != nil || !idle(c) {
		return err
	}
	_, err = s.releases.Release(ctx, c.ID, release.Request{Reason: "tenant idle for " + ttl.String(), OnlyIf: idle})
`,
		new: `	c, err = s.store.Claim(ctx, c.ID)
	if err != nil {
		return err
	}
	_ = idle
	_, err = s.releases.Release(ctx, c.ID, release.Request{Reason: "tenant idle for " + ttl.String()})
`,
	},
	{
		desc: "one workload can use all slots of a loop", test: "TestStuckReleasesDoNotBlockIdleOrRetried",
		file: "release/schedule/schedule.go", pkg: "release",
		old: `PerGroup: slots / 2, Reserved: slots / 4, `,
	},
	{
		desc: "two workloads can use all slots of a loop", test: "TestTwoStuckWorkloadsDoNotBlockOthers",
		file: "release/schedule/schedule.go", pkg: "release",
		old: `, Reserved: slots / 4, `,
		new: `, `,
	},
	{
		desc: "the response of a release has no warnings", test: "TestUploadAfterFailedPreRelease",
		file: "release/steps.go",
		old: `		c.Warnings = append(c.Warnings, op.warnings...)
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
	{
		desc: "the stop of a container has no limit", test: "TestHungStopIsBounded", pkg: "release",
		file: "claim/statesync.go",
		old:  `context.WithTimeoutCause(ctx, stopTimeout, errStopTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "the restart of a released container has no limit", test: "TestHungRestartIsBounded",
		file: "release/upload.go",
		old:  `context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "a discarded container may return to the pool", test: "TestDispose",
		file: "release/disposition.go",
		old: `		{f.discard, "its tenant discarded it"},
`,
	},
	{
		desc: "a container that is neither healthy nor unhealthy returns to the pool", test: "TestDispose",
		file: "release/disposition.go",
		old:  `{f.health != pool.Healthy, `,
		new:  `{f.health == pool.Unhealthy, `,
	},
	{
		desc: "a failed upload is retried at once", test: "TestFailedPeriodicUploadWaits",
		file: "release/schedule/uploads.go", pkg: "release",
		old: `		s.failedUploads.record(id)
`,
	},
	{
		desc: "a failed upload is forgotten while its claim is active", test: "TestFailedPeriodicUploadWaits",
		file: "release/schedule/uploads.go", pkg: "release",
		old: `return !listed[id] })`,
		new: `return listed[id] })`,
	},
	{
		desc: "a failed upload waits for an old interval", test: "TestShorterIntervalCountsAfterFailedUpload",
		file: "release/schedule/schedule.go", pkg: "release",
		old: `			return l.handle(ctx, t.Key.id)
`,
		new: `			if err := l.handle(ctx, t.Key.id); err != nil {
				return workqueue.RetryAfter(24*time.Hour, err)
			}
			return nil
`,
	},
	{
		desc: "the revision of an upload that cannot be read is not reported", test: "TestUnreadableWorkloadIsLogged",
		file: "release/schedule/uploads.go", pkg: "release",
		old: `err == nil && created.Sync == nil {`,
		new: `err != nil || created.Sync == nil {`,
	},
	{
		desc: "a workload that cannot be read is not reported", test: "TestUnreadableWorkloadIsLogged",
		file: "release/schedule/active.go", pkg: "release",
		old: `			if ctx.Err() == nil {`,
		new: `			if ctx.Err() != nil {`,
	},
	{
		desc: "a workload that cannot be read keeps the claims of others from being listed", test: "TestUnreadableWorkloadDoesNotBlockOthers",
		file: "release/schedule/active.go", pkg: "release",
		old: `			continue
		}
		d := `,
		new: `			return due, next, err
		}
		d := `,
	},
	{
		desc: "a workload that cannot be read keeps the releases of others from being retried", test: "TestUnreadableWorkloadDoesNotBlockOthers",
		file: "release/schedule/retries.go", pkg: "release",
		old: `			s.due.add(c) // so that`,
		new: `			return next, err // so that`,
	},
	{
		desc: "a caller who cancels during an abort cancels those who wait with it", test: "TestJoinersOfReleaseSurviveCanceledCaller",
		file: "release/release.go",
		old:  `err = fmt.Errorf("%w: %w", errCallerCanceled, context.Cause(ctx))`,
		new:  `err = context.Cause(ctx)`,
	},
	{
		desc: "a failed release does not wake the loops", test: "TestReleaseIsRetriedSoon",
		file: "release/schedule/schedule.go", pkg: "release",
		old: `			l.lists.AddAfter(struct{}{}, coalesceDelay)`,
		new: `			_ = coalesceDelay`,
	},
	{
		desc: "the event of a release has no exit code", test: "TestUploadFromExitedContainer",
		file: "release/steps.go",
		old:  `		op.exitCode = op.readExitCode(ctx)`,
		new:  `		op.exitCode = nil`,
	},
	{
		desc: "the first release reads the records of earlier ones", test: "TestNoHooksReadNothing",
		file: "release/steps.go",
		old:  `	subject.NoPriorRuns = op.isFirst`,
		new:  `	subject.NoPriorRuns = false`,
	},
	{
		desc: "a new claim reads the records of earlier ones", test: "TestNoHooksReadNothing", pkg: "release",
		file: "claim/steps.go",
		old:  `	subject.NoPriorRuns = a.started == nil`,
		new:  `	subject.NoPriorRuns = false`,
	},
	{
		desc: "a creation reads the records of earlier ones", test: "TestNoHooksReadNothing", pkg: "release",
		file: "pool/provisioner.go",
		old:  `, NoPriorRuns: true}`,
		new:  `}`,
	},
}
