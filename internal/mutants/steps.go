package main

// steps are mutations of the steps of the flows and their order.
var steps = []mutation{
	{
		desc: "post_create runs before the container is healthy", test: "TestCreateStepOrder",
		file: "pool/provisioner.go", pkg: "claim",
		old: `		flow.Step{Name: "healthy", Do: awaitHealthy},
		flow.Step{Name: string(hooks.PostCreate), Do: p.fire(hooks.PostCreate, w, subject)},
`,
		new: `		flow.Step{Name: string(hooks.PostCreate), Do: p.fire(hooks.PostCreate, w, subject)},
		flow.Step{Name: "healthy", Do: awaitHealthy},
`,
	},
	{
		desc: "a claim downloads the tenant's state after the restart", test: "TestRecycleStepOrder",
		file: "claim/steps.go",
		old: `		flow.Step{Name: "download", When: planned(&a.plan.download), Do: a.download},
		flow.Step{Name: "restart", When: func() bool { return a.needsEnvironment() || a.plan.needsRestart(a.changed) }, Do: a.restart},
`,
		new: `		flow.Step{Name: "restart", When: func() bool { return a.needsEnvironment() || a.plan.needsRestart(a.changed) }, Do: a.restart},
		flow.Step{Name: "download", When: planned(&a.plan.download), Do: a.download},
`,
	},
	{
		desc: "nothing is seeded", test: "TestSeedAndState",
		file: "pool/seed.go", pkg: "claim",
		old: `		if v.Seed == "" {
			continue
		}
		if dir`,
		new: `		if v.Seed != dir+"?" {
			continue
		}
		if dir`,
	},
	{
		desc: "the upload comes before pre_release", test: "TestCloseLeavesReleaseToNextServer",
		file: "release/steps.go",
		old: `		flow.Step{Name: string(hooks.PreRelease), Do: op.preRelease},
		flow.Step{Name: "upload", When: op.hasSyncOnRelease, Do: op.uploadState},
`,
		new: `		flow.Step{Name: "upload", When: op.hasSyncOnRelease, Do: op.uploadState},
		flow.Step{Name: string(hooks.PreRelease), Do: op.preRelease},
`,
	},
	{
		desc: "there is no upload after a failed pre_release", test: "TestUploadAfterFailedPreRelease",
		file: "release/upload.go",
		old:  `	if err := op.refresh(ctx); err != nil || op.claim.Discard || op.lossReason != "" {`,
		new:  `	if err := op.refresh(ctx); err != nil || op.claim.Discard || op.lossReason != "" || len(op.warnings) > 0 {`,
	},
	{
		desc: "the event of a release has no warnings", test: "TestUploadAfterFailedPreRelease",
		file: "release/steps.go",
		old:  `Warnings: op.warnings, Timings: op.flow.Timings}`,
		new:  `Timings: op.flow.Timings}`,
	},
	{
		desc: "the output of a hook is dropped", test: "TestRunRecordIsComplete",
		file: "hooks/runner/executor.go",
		old: `	r.Stdout, r.Stderr = res.Stdout, res.Stderr
`,
	},
	{
		desc: "a claim is active before post_claim", test: "TestClaimStepOrder",
		file: "claim/steps.go",
		old: `		flow.Step{Name: string(hooks.PostClaim), Do: a.postClaim},
		flow.Step{Name: "activate", Do: a.markActive},
`,
		new: `		flow.Step{Name: "activate", Do: a.markActive},
		flow.Step{Name: string(hooks.PostClaim), Do: a.postClaim},
`,
	},
	{
		desc: "pre_destroy comes after the removal", test: "TestPreDestroyOnce",
		file: "pool/provisioner.go",
		old: `		flow.Step{Name: string(hooks.PreDestroy), When: hasPreDestroy(c, w), Do: func(ctx context.Context) error {
			return p.preDestroy(ctx, c, w)
		}},
		flow.Step{Name: "remove", Do: func(ctx context.Context) error { return p.remove(ctx, c.ID, w, onStopping) }},
`,
		new: `		flow.Step{Name: "remove", Do: func(ctx context.Context) error { return p.remove(ctx, c.ID, w, onStopping) }},
		flow.Step{Name: string(hooks.PreDestroy), When: hasPreDestroy(c, w), Do: func(ctx context.Context) error {
			return p.preDestroy(ctx, c, w)
		}},
`,
	},
	{
		desc: "the container of a failed claim becomes idle", test: "TestPostClaimFails",
		file: "claim/transition.go",
		old: `	destroy := pool.DestroyFailed("", []pool.State{pool.Claimed}, "its claim failed: "+reason, chain...)
`,
		new: `	destroy := pool.Return("its claim failed", func(*pool.Container) {})
`,
	},
	{
		desc: "a hook has no timeout", test: "TestAttemptsAndEnvironment",
		file: "hooks/runner/command.go",
		old: `		Workdir:     p.Workdir,
		Timeout:     a.Timeout,
`,
		new: `		Workdir:     p.Workdir,
`,
	},
	{
		desc: "a claim does not check the health of its container", test: "TestClaimStepOrder",
		file: "claim/prepare.go",
		old:  `	if a.pools.Health.IsRecentlyHealthy(a.w, a.claim.Container) {`,
		new:  `	if a.w != nil {`,
	},
	{
		desc: "the skipped pre_destroy has no event", test: "TestPreDestroySkippedAfterExit",
		file: "hooks/runner/point.go", pkg: "pool",
		old: `	if err := r.recorder.RunSkipped(ctx, run); err != nil {
`,
		new: `	if err := ctx.Err(); err != nil {
`,
	},
	{
		desc: "a container whose post_create failed is idle", test: "TestCreateFailureIsRolledBack",
		file: "pool/provisioner.go",
		old: `		_, err := p.runner.Fire(ctx, point, w, s)
		return err
`,
		new: `		_, _ = p.runner.Fire(ctx, point, w, s)
		return nil
`,
	},
	{
		desc: "the seed overwrites the download", test: "TestRecycleStepOrder",
		file: "claim/steps.go",
		old: `		flow.Step{Name: "seed", When: planned(&a.plan.seed), Do: a.seed},
		flow.Step{Name: "download", When: planned(&a.plan.download), Do: a.download},
`,
		new: `		flow.Step{Name: "download", When: planned(&a.plan.download), Do: a.download},
		flow.Step{Name: "seed", When: planned(&a.plan.seed), Do: a.seed},
`,
	},
}
