package main

// steps are changes of what a flow does, and in which order.
var steps = []mutation{
	{
		desc: "post_create runs before the container is healthy", test: "TestCreateOrder",
		file: "pool/maker.go", pkg: "claim",
		old: `		flow.Step{Name: "healthy", Do: func(ctx context.Context) error {
			status, err := m.health.Await(ctx, w, c.ID)
			endpoint = status.Endpoint
			return err
		}},
		flow.Step{Name: string(hooks.PostCreate), Do: func(ctx context.Context) error {
			_, err := m.runner.Run(ctx, hooks.PostCreate, w.Hooks[hooks.PostCreate], subject)
			return err
		}},
`,
		new: `		flow.Step{Name: string(hooks.PostCreate), Do: func(ctx context.Context) error {
			_, err := m.runner.Run(ctx, hooks.PostCreate, w.Hooks[hooks.PostCreate], subject)
			return err
		}},
		flow.Step{Name: "healthy", Do: func(ctx context.Context) error {
			status, err := m.health.Await(ctx, w, c.ID)
			endpoint = status.Endpoint
			return err
		}},
`,
	},
	{
		desc: "a claim downloads the tenant's state after the restart", test: "TestWholeOrder",
		file: "claim/steps.go",
		old: `		flow.Step{Name: "download", When: m.lacksState, Do: m.download},
		flow.Step{Name: "restart", When: func() bool {
			return m.empty || m.current.Restart == workload.RestartAlways ||
				m.changed && m.current.Restart != workload.RestartNever
		}, Do: m.restart},
`,
		new: `		flow.Step{Name: "restart", When: func() bool {
			return m.empty || m.current.Restart == workload.RestartAlways ||
				m.changed && m.current.Restart != workload.RestartNever
		}, Do: m.restart},
		flow.Step{Name: "download", When: m.lacksState, Do: m.download},
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
		desc: "the upload comes before pre_release", test: "TestClose",
		file: "release/steps.go",
		old: `		flow.Step{Name: string(hooks.PreRelease), Do: m.preRelease},
		flow.Step{Name: "upload", When: m.syncs, Do: m.upload},
`,
		new: `		flow.Step{Name: "upload", When: m.syncs, Do: m.upload},
		flow.Step{Name: string(hooks.PreRelease), Do: m.preRelease},
`,
	},
	{
		desc: "no upload after a pre_release that has failed", test: "TestStateAfterAFailedPreRelease",
		file: "release/keep.go",
		old:  `	if err := m.look(ctx); err != nil || m.claim.Discard || m.lost != "" {`,
		new:  `	if err := m.look(ctx); err != nil || m.claim.Discard || m.lost != "" || len(m.warnings) > 0 {`,
	},
	{
		desc: "the event of a release does not have its warnings", test: "TestStateAfterAFailedPreRelease",
		file: "release/steps.go",
		old:  `"reason": m.request.Reason, "warnings": m.warnings, `,
		new:  `"reason": m.request.Reason, `,
	},
	{
		desc: "what a hook prints is thrown away", test: "TestWhatIsRecorded",
		file: "hooks/runner.go",
		old: `	run.Stdout, run.Stderr = res.Stdout, res.Stderr
`,
	},
	{
		desc: "a claim is active before post_claim", test: "TestOrder",
		file: "claim/steps.go",
		old: `flow.Step{Name: string(hooks.PostClaim), Do: m.postClaim})
	maps.Copy(m.timings, timings)
	if err != nil {
		return err
	}
	_, err = flow.Run(work, "claim", flow.Step{Name: "activate", Do: m.enact})`,
		new: `flow.Step{Name: "activate", Do: m.enact})
	maps.Copy(m.timings, timings)
	if err != nil {
		return err
	}
	_, err = flow.Run(work, "claim", flow.Step{Name: string(hooks.PostClaim), Do: m.postClaim})`,
	},
	{
		desc: "pre_destroy comes after the removal", test: "TestPreDestroyOnce",
		file: "pool/maker.go",
		old: `		flow.Step{Name: string(hooks.PreDestroy), When: hooked, Do: func(ctx context.Context) error {
			return m.preDestroy(ctx, c, w)
		}},
		flow.Step{Name: "remove", Do: func(ctx context.Context) error {
			stopping()
			ctx, cancel := context.WithTimeout(ctx, graceOf(w)+removeTime)
			defer cancel()
			return m.rt.Destroy(ctx, c.ID)
		}},
`,
		new: `		flow.Step{Name: "remove", Do: func(ctx context.Context) error {
			stopping()
			ctx, cancel := context.WithTimeout(ctx, graceOf(w)+removeTime)
			defer cancel()
			return m.rt.Destroy(ctx, c.ID)
		}},
		flow.Step{Name: string(hooks.PreDestroy), When: hooked, Do: func(ctx context.Context) error {
			return m.preDestroy(ctx, c, w)
		}},
`,
	},
	{
		desc: "the container of a claim that failed is idle again", test: "TestPostClaimFails",
		file: "claim/steps.go",
		old: `	destroy := pool.Condemn("", []pool.State{pool.Claimed}, "its claim failed: "+reason)
`,
		new: `	destroy := pool.Move{From: []pool.State{pool.Claimed}, To: pool.Idle, Set: func(c *pool.Container) { c.Claim = "" }}
`,
	},
	{
		desc: "a hook has no timeout", test: "TestAttemptsAndEnvironment",
		file: "hooks/exec.go",
		old: `		Timeout:     c.Timeout,
`,
	},
	{
		desc: "a claim does not look at the health of its container", test: "TestOrder",
		file: "claim/steps.go",
		old:  `			if m.pools.Health.Fresh(m.w, m.claim.Container) {`,
		new:  `			if m.w != nil {`,
	},
	{
		desc: "nobody is told that pre_destroy was skipped", test: "TestPreDestroyOfTheDead",
		file: "pool/maker.go",
		old: `		_, err = m.runner.Skip(ctx, hooks.PreDestroy, hs, subject, "the container is not running")
`,
		new: `		err = nil
`,
	},
	{
		desc: "a container whose post_create failed is idle", test: "TestCreateUndoes",
		file: "pool/maker.go",
		old: `			_, err := m.runner.Run(ctx, hooks.PostCreate, w.Hooks[hooks.PostCreate], subject)
			return err
`,
		new: `			_, _ = m.runner.Run(ctx, hooks.PostCreate, w.Hooks[hooks.PostCreate], subject)
			return nil
`,
	},
	{
		desc: "the seed goes over what was downloaded", test: "TestSeedAndState",
		file: "claim/steps.go",
		old: `		flow.Step{Name: "seed", When: m.lacksSeed, Do: m.seed},
		flow.Step{Name: "download", When: m.lacksState, Do: m.download},
`,
		new: `		flow.Step{Name: "download", When: m.lacksState, Do: m.download},
		flow.Step{Name: "seed", When: m.lacksSeed, Do: m.seed},
`,
	},
}
