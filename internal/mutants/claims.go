package main

// claims are changes of package claim.
var claims = []mutation{
	{
		desc: "another tenant's container is not wiped", test: "TestOrder",
		file: "claim/steps.go",
		old: `	m.empty = m.claim.Source == Recycled
`,
		new: `	m.empty = false
`,
	},
	{
		desc: "a container whose wipe broke off goes back to the pool when the engine is away", test: "TestBrokenOffIsGivenUp",
		file: "claim/ready.go",
		old: `	m.changed = true
	if err := m.rt.Wipe`,
		new: `	if err := m.rt.Wipe`,
	},
	{
		desc: "a container whose restart broke off goes back to the pool when the engine is away", test: "TestBrokenOffIsGivenUp",
		file: "claim/ready.go",
		old: `	m.changed = true
	m.pools.Health.Restarted(m.claim.Container)
`,
		new: `	m.pools.Health.Restarted(m.claim.Container)
`,
	},
	{
		desc: "a used container that is put back counts as never used", test: "TestEngineAwayAtClaim",
		file: "claim/steps.go",
		old: `	fresh := m.claim.Source == Fresh
`,
		new: `	fresh := true
`,
	},
	{
		desc: "a fresh container that is put back counts as used", test: "TestPutBackIsFresh",
		file: "claim/steps.go",
		old: `	fresh := m.claim.Source == Fresh
`,
		new: `	fresh := false
`,
	},
	{
		desc: "a wipe is not recorded", test: "TestOrder",
		file: "claim/ready.go",
		old: `	_, err := m.pools.Wiped(ctx, m.claim.Container, m.claim.Tenant)
	return err
`,
		new: `	return nil
`,
	},
	{
		desc: "a wipe carries no fence", test: "TestOrder",
		file: "claim/ready.go",
		old:  `m.rt.Wipe(ctx, m.claim.Container, m.claim.ContainerFence)`,
		new:  `m.rt.Wipe(ctx, m.claim.Container, 1)`,
	},
	{
		desc: "the restart of a claim carries no fence", test: "TestOrder",
		file: "claim/ready.go",
		old:  `m.rt.Restart(ctx, m.claim.Container, m.claim.ContainerFence)`,
		new:  `m.rt.Restart(ctx, m.claim.Container, 1)`,
	},
	{
		desc: "a snapshot that became current after the seed was chosen is put over it", test: "TestSnapshotThatCameAfterTheSeed",
		file: "claim/ready.go",
		old:  `	if err == nil && m.compares() && transfer.Snapshot.ID != m.latest.ID {`,
		new:  `	if err == nil && m.compares() && transfer.Snapshot.ID == "none" {`,
	},
	{
		desc: "the seed covers what the tenant has removed", test: "TestSeedAndState",
		file: "claim/ready.go",
		old: `	if m.synced() {
		covered =`,
		new: `	if false {
		covered =`,
	},
	{
		desc: "what a volume is seeded with does not restart the main process", test: "TestRestartAfterSeeding",
		file: "claim/ready.go",
		old: `	m.changed = m.changed || seeded || err != nil
`,
		new: `	m.changed = m.changed || seeded && err != nil
`,
	},
	{
		desc: "an upload counts though the claim has another container by then", test: "TestUploadOfAnotherContainer",
		file: "claim/keeper.go",
		old:  `(now.State != c.State || now.Container != c.Container)`,
		new:  `(now.State != c.State)`,
	},
	{
		desc: "an upload counts though nothing is to be kept any more", test: "TestDiscardOnAnotherServer",
		file: "claim/keeper.go", pkg: "release",
		old: `	if err == nil && now.Discard && !c.Discard {`,
		new: `	if err == nil && now.Discard && c.Discard {`,
	},
	{
		desc: "an archive counts without a look at the claim when it was read", test: "TestDiscardOnAnotherServer",
		file: "claim/keeper.go", pkg: "release",
		old: `		if doubt := r.counts(); doubt != nil {
			return n, doubt
		}
`,
	},
	{
		desc: "a state that is too large is the sink's fault", test: "TestWhoseFault",
		file: "claim/errors.go",
		old:  `snapshot.ErrSource, snapshot.ErrTooLarge, `,
		new:  `snapshot.ErrSource, `,
	},
	{
		desc: "a newcomer overtakes the claims that wait", test: "TestNobodyOvertakes",
		file: "claim/reserve.go",
		old: `	queued := m.pools.Queue.Waiting(m.claim.Workload) > 0
`,
		new: `	queued := false
`,
	},
	{
		desc: "a claim tries one container too many", test: "TestUnfitContainersAreCounted",
		file: "claim/steps.go",
		old:  `tries == maxContainers ||`,
		new:  `tries > maxContainers ||`,
	},
	{
		desc: "a claim tries one container too few", test: "TestUnfitContainersAreCounted",
		file: "claim/steps.go",
		old:  `tries == maxContainers ||`,
		new:  `tries+1 == maxContainers ||`,
	},
	{
		desc: "the sweep ends claims that other servers make", test: "TestSweepReadsAllPages",
		file: "claim/sweep.go",
		old:  `!s.Elsewhere(c) && !s.isMaking(c.ID)`,
		new:  `!s.isMaking(c.ID)`,
	},
	{
		desc: "a claim that was taken over runs its hooks though none had begun", test: "TestCrashBeforeTheHooks",
		file: "claim/recover.go",
		old: `	if !begun {
`,
		new: `	if begun && false {
`,
	},
	{
		desc: "what a container holds is not noted when its claim becomes active", test: "TestWhatAContainerHolds",
		file: "claim/ready.go",
		old: `			if state != "" {
				c.Snapshot`,
		new: `			if state == "none" {
				c.Snapshot`,
	},
	{
		desc: "an abort does not wait for the end of the making", test: "TestAbortEndsTheClaim",
		file: "claim/service.go",
		old: `		select {
		case <-f.done: // and if its end could not be recorded, it is now
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err`,
		new: `	}
	_, err`,
	},
}
