package main

// forces are mutations of how an operator destroys a container by force.
var forces = []mutation{
	{
		desc: "a release restarts a container that was forced during its hooks", test: "TestForceEndsRunningHook", pkg: "pool",
		file: "release/upload.go",
		old:  `	op.container.Health, op.container.Forced = pool.Health(current.Health), current.Forced`,
		new:  ``,
	},
	{
		desc: "the pre_destroy hooks run although they are to be skipped", test: "TestDestructionWithoutHooks",
		file: "pool/provisioner.go",
		old:  `	if c.Forced == ForcedNow {`,
		new:  `	if c.Forced == ForcedDone {`,
	},
	{
		desc: "pre_destroy waits for the hook of a terminated server", test: "TestForceEndsHookOfTerminatedServer",
		file: "pool/provisioner.go",
		old:  `, EndsOthers: c.Forced != NotForced,`,
		new:  `,`,
	},
	{
		desc: "a container without pre_destroy hooks is removed while a hook is ended", test: "TestForceEndsHookBeforeRemoval",
		file: "hooks/runner/runner.go", pkg: "pool",
		old: `	if len(hs) == 0 && !s.EventCommands && !s.EndsOthers {`,
		new: `	if len(hs) == 0 && !s.EventCommands {`,
	},
	{
		desc: "a container without commands of pre_destroy is removed while a hook is ended", test: "TestForceEndsHookBeforeRemoval",
		file: "hooks/runner/runner.go", pkg: "pool",
		old: `(runsCommands || s.EndsOthers)`,
		new: `runsCommands`,
	},
	{
		desc: "pre_destroy comes after the removal of a claimed container", test: "TestForcedDestruction",
		file: "pool/force.go",
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
		desc: "a claimed container that was removed is removed again and again", test: "TestForcedDestruction",
		file: "pool/force.go",
		old:  `func(c *Container) { c.Forced = ForcedDone }`,
		new:  `nil`,
	},
	{
		desc: "the next server does not destroy what an operator has forced", test: "TestForceSurvivesRestart",
		file: "pool/reaper.go",
		old:  `range append(destroying, forced...) {`,
		new:  `range append(destroying, forced[:0]...) {`,
	},
	{
		desc: "a request to skip the hooks is ignored while they run", test: "TestDestructionIsCutShort",
		file: "pool/force.go",
		old:  `c.State == Destroying && (how != ForcedNow || isSet):`,
		new:  `c.State == Destroying:`,
	},
	{
		desc: "the hooks that run are not ended on their server", test: "TestForceEndsRunningHook",
		file: "hooks/runner/ending.go", pkg: "pool",
		old: `		if f.container == container && (now || !f.isLast) {
			f.cancel(cause)
		}
`,
		new: `		_ = f
`,
	},
	{
		desc: "pre_destroy hooks are ended without a request", test: "TestFireAfterEnd",
		file: "hooks/runner/ending.go",
		old:  `; k.now || !isLast {`,
		new:  `; true {`,
	},
	{
		desc: "the pre_destroy hook of a terminated server is ended", test: "TestForceEndsHookOfTerminatedServer",
		file: "hooks/runner/recover.go", pkg: "pool",
		old: ` || s.EndsOthers && run.Point == p {`,
		new: ` {`,
	},
	{
		desc: "an upload ends the pre_destroy hooks", test: "TestReleaseDuringForcedDestruction",
		file: "release/upload.go", pkg: "pool",
		old: `	if op.container.Forced == pool.NotForced {`,
		new: `	if true {`,
	},
	{
		desc: "the flow of a claim continues in a container that is destroyed by force", test: "TestSQLite",
		file: "store/containers.go",
		old:  ` || after.Forced != before.Forced {`,
		new:  ` {`,
	},
	{
		desc: "commands of event hooks start in a container that is destroyed by force", test: "TestSQLite",
		file: "store/deliveries.go",
		old:  `CASE forced WHEN '' THEN state ELSE forced END`,
		new:  `state`,
	},
	{
		desc: "commands of event hooks continue during pre_destroy", test: "TestReleaseEndsCommands",
		file: "delivery/service.go",
		old:  `activity.ContainerDestroying, activity.ContainerForced} {`,
		new:  `activity.ContainerDestroying} {`,
	},
	{
		desc: "a pre_destroy hook of a claimed container is not continued by the next server", test: "TestForcedHookContinuesAfterRestart",
		file: "release/recover.go", pkg: "pool",
		old: `; c.IsDue() {`,
		new: `; false {`,
	},
	{
		desc: "a claim returns a container that is destroyed by force", test: "TestForcedContainerDoesNotReturn",
		file: "store/containers.go", pkg: "pool",
		old: `	if m.To == pool.Idle && before.Forced != pool.NotForced {`,
		new: `	if false {`,
	},
	{
		desc: "a health check makes an exited container healthy", test: "TestHealthCheckKeepsExit",
		file: "pool/health.go",
		old:  `		if k.Health != Exited {`,
		new:  `		if true {`,
	},
	{
		desc: "a request to destroy a container takes back a concurrent one without its hooks", test: "TestForceIsNotWeakened",
		file: "pool/force.go",
		old:  `		if !c.Forced.covers(how) {`,
		new:  `		if true {`,
	},
	{
		desc: "hooks of a release run while a test of a terminated server does", test: "TestReleaseEndsTestOfTerminatedServer",
		file: "release/steps.go", pkg: "delivery",
		old: `	test, err := op.runner.EndTests(ctx, op.claim.ID)`,
		new: `	test, err := "", err`,
	},
	{
		desc: "a container is destroyed without its hooks while its workload cannot be read", test: "TestUnreadableWorkloadIsRetried",
		file: "pool/reaper.go",
		old:  `	if err != nil && c.Forced != ForcedNow && `,
		new:  `	if false && `,
	},
}
