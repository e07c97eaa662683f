package main

// environments are about the environment of a claim's main process.
var environments = []mutation{
	{
		desc: "a claim does not restart the main process for its environment", test: "TestEnvironmentReachesMainProcess",
		file: "claim/steps.go",
		old:  `return a.needsEnvironment() || a.plan`,
		new:  `return a.plan`,
	},
	{
		desc: "any environment is that of the tenant's claim", test: "TestRepeatedClaimWithEnvironment",
		file: "claim/environment.go",
		old:  `digest == "" || hmac.Equal(`,
		new:  `digest != "" || hmac.Equal(`,
	},
	{
		desc: "nothing of an environment is on record", test: "TestRepeatedClaimWithEnvironment",
		file: "claim/reserve.go",
		old:  `Environment: digest, `,
		new:  `Environment: digest[:0], `,
	},
	{
		desc: "what is on record of an environment outlives the claim", test: "TestEnvironmentIsNotStored",
		file: "store/claims.go", pkg: "claim",
		old: `after.EnvironmentDigest = before.EnvironmentDigest; !m.To.IsLive() {`,
		new: `after.EnvironmentDigest = before.EnvironmentDigest; m.To == "" {`,
	},
	{
		desc: "a caller gets the failure of another environment", test: "TestJoinedClaimFails",
		file: "claim/environment.go",
		old:  `return c, !maps.Equal(p.environment, r.Environment), err`,
		new:  `return c, maps.Equal(p.environment, r.Environment), err`,
	},
	{
		desc: "a claim destroys the tenant's own container because its server was older", test: "TestUnsupportedEnvironment",
		file: "claim/prepare.go",
		old:  `		a.changed = changed`,
		new:  `		a.changed = changed || true`,
	},
	{
		desc: "an older program is sent an environment, which it ignores", test: "TestEnvironmentNeedsFeature",
		file: "runtime/shim/environment.go",
		old:  `		if !c.Has(FeatureEnvironment) {`,
		new:  `		if c.Has("") {`,
	},
	{
		desc: "a claim chooses the program of the main process", test: "TestCheckEnvironment",
		file: "runtime/environment.go",
		old:  `name == "PATH" || `,
		new:  ``,
	},
	{
		desc: "the environment outlives the main process", test: "TestEnvironmentOfMainProcess",
		file: "cmd/hostler-shim/change_ops.go",
		old:  `	s.waitsForStart, s.environment = false, nil`,
		new:  `	s.waitsForStart = false`,
	},
	{
		desc: "the server's own commands have the environment of the tenant", test: "TestEnvironmentOfMainProcess",
		file: "cmd/hostler-shim/commands.go",
		old:  `	if !c.internal {`,
		new:  `	if c != nil {`,
	},
}
