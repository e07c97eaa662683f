package main

// releases are changes of package release.
var releases = []mutation{
	{
		desc: "a wish to discard that comes with the release is not recorded with it", test: "TestDiscardIsOneChange",
		file: "release/steps.go",
		old: `				c.Discard = c.Discard || m.discard.Load()
`,
	},
	{
		desc: "a wish to discard that comes later is obeyed and not recorded", test: "TestDiscardIsDurable",
		file: "release/steps.go",
		old: `		if err := m.wish(ctx, m.claim.ID); err != nil {
			return err
		}
		m.claim.Discard = true
`,
		new: `		m.claim.Discard = true
`,
	},
	{
		desc: "a container is released that is another claim's by now", test: "TestContainerOfAnotherClaim",
		file: "release/steps.go",
		old:  `	if m.container.Claim != m.claim.ID {`,
		new:  `	if m.container.Claim == "nobody" {`,
	},
	{
		desc: "a discarded container goes back to the pool when the wish came last", test: "TestDiscardJoins",
		file: "release/steps.go",
		old: `			case c.Discard:
				condemn(discarded)
`,
	},
	{
		desc: "a container that fell ill during its release goes back to the pool", test: "TestHealthDuringTheRelease",
		file: "release/steps.go",
		old: `			case c.Health == string(pool.Dead), c.Health == string(pool.Unhealthy):
				condemn("it is " + c.Health)
`,
	},
	{
		desc: "a container whose engine is away is given up", test: "TestEngineAwayAtRelease",
		file: "release/steps.go",
		old: `	if errors.Is(err, runtime.ErrUnavailable) {
		// Nothing is known`,
		new: `	if err == nil && ctx.Err() != nil {
		// Nothing is known`,
	},
	{
		desc: "a container of an old revision goes back to the pool", test: "TestOldRevision",
		file: "release/steps.go",
		old: `	case pool.Outdated(m.container, record.Revision, m.rt.Protocols().Current) != "":
		return pool.Outdated(m.container, record.Revision, m.rt.Protocols().Current), nil
`,
	},
	{
		desc: "a container of which a hook may still run goes back to the pool", test: "TestPreReleaseFails",
		file: "release/steps.go",
		old: `	if errors.Is(err, runtime.ErrDoomed) {
		m.spoiled = "a process of a hook may still run"
	}
`,
	},
	{
		desc: "the restart of a release carries no fence", test: "TestFencesOfReleases",
		file: "release/steps.go",
		old:  `m.rt.Restart(ctx, m.claim.Container, m.claim.ContainerFence)`,
		new:  `m.rt.Restart(ctx, m.claim.Container, 1)`,
	},
	{
		desc: "a release that succeeds leaves the failures before it on record", test: "TestUploadFails",
		file: "release/steps.go",
		old: `			c.ReleasedAt, c.Failures, c.RetryAt, c.FailureReason, c.FailedAt = &now, 0, nil, "", nil
`,
		new: `			c.ReleasedAt = &now
`,
	},
	{
		desc: "a container does not know which snapshot it holds after its release", test: "TestStateThatMovedOn",
		file: "release/steps.go",
		old: `				c.Snapshot = taken
`,
		new: `				c.Snapshot = ""
`,
	},
	{
		desc: "a tenant's fault is tried once more than it may be", test: "TestWhyAReleaseFails",
		file: "release/keep.go",
		old:  `failures >= tenantTries`,
		new:  `failures > tenantTries`,
	},
	{
		desc: "what is stale is tried again", test: "TestWhyAReleaseFails",
		file: "release/keep.go",
		old:  `reason == claim.FailedStale || `,
	},
	{
		desc: "a release that failed is kept back though its tenant wants nothing kept", test: "TestDiscardAsTheUploadFails",
		file: "release/keep.go",
		old: `		If: func(c claim.Claim) bool { return !c.Discard },
		Set: func(c *claim.Claim) {
			c.Reason, c.RetryAt`,
		new: `		Set: func(c *claim.Claim) {
			c.Reason, c.RetryAt`,
	},
	{
		desc: "each failure starts the time anew after which the state is given up", test: "TestWhyAReleaseFails",
		file: "release/keep.go",
		old: `m.claim.Failures+1, m.claim.FailedAt
`,
		new: `m.claim.Failures+1, &now
`,
	},
	{
		desc: "the state is given up though its failure is the sink's by then", test: "TestNotGivenUpForASink",
		file: "release/keep.go",
		old:  `now.State == claim.ReleaseFailed && now.FailureReason == claim.FailedByTenant && now.Failures`,
		new:  `now.State == claim.ReleaseFailed && now.Failures`,
	},
	{
		desc: "a container that disappeared is tried again", test: "TestContainerDisappeared",
		file: "release/keep.go",
		old: `		m.spoiled, m.lost = "it disappeared", "the container disappeared: "+err.Error()
		return nil
`,
		new: `		return err
`,
	},
	{
		desc: "a container that ended is not started to read its files", test: "TestStateOfTheDead",
		file: "release/keep.go",
		old:  `	if errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrLost) {`,
		new:  `	if errors.Is(err, runtime.ErrLost) && err == nil {`,
	},
	{
		desc: "a container that was started to read its files goes back to the pool", test: "TestStartedToBeRead",
		file: "release/keep.go",
		old: `		m.spoiled = "it had ended before its tenant left"
`,
	},
	{
		desc: "nobody is told that a tenant's state is lost", test: "TestWhyAReleaseFails",
		file: "release/keep.go",
		old: `	return []activity.Event{{
		Type: activity.ClaimStateLost,`,
		new: `	return []activity.Event{{
		Type: activity.ClaimReleasing,`,
	},
	{
		desc: "hook runs of a removal under way are abandoned", test: "TestPreDestroyIsTakenUp",
		file: "release/recover.go", pkg: "pool",
		old: `		return c.State == pool.Destroying, err
`,
		new: `		return c.State == pool.Gone, err
`,
	},
	{
		desc: "a claim is released though its tenant showed itself while the reaper was on its way", test: "TestShowingUpAtTheLastMoment",
		file: "release/idle.go",
		old: `	c, err := s.store.Claim(ctx, c.ID)
	if err != nil || !idle(c) {
		return err
	}
	_, err = s.Release(ctx, c.ID, Request{Reason: "its tenant was idle for " + ttl.String(), only: idle})
`,
		new: `	c, err := s.store.Claim(ctx, c.ID)
	if err != nil {
		return err
	}
	_ = idle
	_, err = s.Release(ctx, c.ID, Request{Reason: "its tenant was idle for " + ttl.String()})
`,
	},
	{
		desc: "one workload may take all the places of a loop", test: "TestSlowReleases",
		file: "release/rounds.go",
		old:  ` || of >= r.limit/2 || of > 0 && len(r.busy) >= r.limit-r.limit/4 {`,
		new:  ` {`,
	},
	{
		desc: "one workload may take one place too many of a loop", test: "TestRounds",
		file: "release/rounds.go",
		old:  `of >= r.limit/2 ||`,
		new:  `of > r.limit/2 ||`,
	},
	{
		desc: "the answer of a release does not have its warnings", test: "TestStateAfterAFailedPreRelease",
		file: "release/steps.go",
		old: `			c.Warnings = append(c.Warnings, m.warnings...)
`,
	},
}
