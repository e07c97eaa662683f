package main

// wipes are about what keeps a tenant's data from the next tenant, and the last copy
// of a tenant's data from being lost.
var wipes = []mutation{
	{
		desc: "another tenant's container is not wiped",
		file: "claim/plan.go", test: "TestClaimStepOrder",
		old: "{Recycled, false, false, false}: {wipe: true, ",
		new: "{Recycled, false, false, false}: {",
	},
	{
		desc: "a wipe carries no fence",
		file: "claim/prepare.go", test: "TestClaimStepOrder",
		old: "a.rt.Wipe(ctx, a.claim.Container, a.claim.ContainerFence)",
		new: "a.rt.Wipe(ctx, a.claim.Container, 1)",
	},
	{
		desc: "a wipe ends no process",
		file: "cmd/hostler-shim/wipe.go", test: "TestWipeEndsProcesses",
		old: "err := s.killAll();",
		new: "err := error(nil);",
	},
	{
		desc: "a wipe empties nothing",
		file: "cmd/hostler-shim/wipe.go", test: "TestWipeAndCompare",
		old: "err := p.wipe(deadline);",
		new: "err := func(any, any) error { return nil }(p, deadline);",
	},
	{
		desc: "a wipe does not compare the files",
		file: "cmd/hostler-shim/wipe.go", test: "TestWipeAndCompare",
		old: "files.compare(trees); err != nil {",
		new: "files.compare(trees); false {",
	},
	{
		desc: "a wipe does not compare the facts",
		file: "cmd/hostler-shim/wipe.go", test: "TestWipeAndCompare",
		old: "facts.compare(now); err != nil {",
		new: "facts.compare(now); false {",
	},
	{
		desc: "the last change, in nanoseconds, of a file is not compared",
		file: "cmd/hostler-shim/filestate.go", test: "TestFingerprint",
		old: "uint64(f.ctime.Nsec)<<32 | uint64(f.mtime.Nsec)",
		new: "uint64(f.mtime.Nsec)",
	},
	{
		desc: "the result of the probe is dropped",
		file: "cmd/hostler-shim/baseline.go", test: "TestBaselineNeedsReliableCtime",
		old: "s.probeTimestamps()",
		new: "error(nil)",
	},
	{
		desc: "a container without a baseline counts as clean",
		file: "cmd/hostler-shim/wipe.go", test: "TestWipeWithoutBaseline",
		old: `return fmt.Errorf("%w: it has no baseline", runtime.ErrWipeUnverified)`,
		new: "return nil",
	},
	{
		desc: "a bridge that was started next to a tenant survives a wipe",
		file: "cmd/hostler-shim/session_trust.go", test: "TestWipeEndsUntrustedBridges",
		old: "trusted: all.protected && all.isQuiet}",
		new: "trusted: all.protected}",
	},
	{
		desc: "an idle worker is used for another user",
		file: "cmd/hostler-shim/worker_pool.go", test: "TestWorkersOfUsers",
		old: "return p.user == user })",
		new: "return len(user) > 0 })",
	},
	{
		desc: "the next tenant finds the commands of the last one",
		file: "cmd/hostler-shim/commands.go", test: "TestUncertainCommands",
		old: "\ts.all = nil\n",
		new: "",
	},
	{
		desc: "a line that a tenant prints is accepted as the mark of a wipe",
		file: "runtime/shim/wipe_log.go", test: "TestAfterLastWipe",
		old: "if isLogMark(key, mark) {",
		new: "if isLogMark(key, mark) || len(mark) > 0 {",
	},
	{
		desc: "a container in which a hook may still run is not discarded",
		file: "hooks/runner/attempts.go", test: "TestErrorPolicies",
		old: "errors.Is(err, runtime.ErrTainted) {",
		new: "errors.Is(err, runtime.ErrTainted) && run.Attempt == 0 {",
	},
	{
		desc: "the tenant's state is downloaded over its own files",
		file: "claim/plan.go", test: "TestPlanRules",
		old: "{Affinity, true, false, false}:  {},",
		new: "{Affinity, true, false, false}:  {download: true},",
	},
	{
		desc: "a failed upload counts as done",
		file: "release/upload.go", test: "TestFailedUploadRetainsContainer",
		old: "op.claim = c\n\t}\n\treturn err",
		new: "op.claim = c\n\t}\n\treturn nil",
	},
	{
		desc: "an upload counts although the claim has another container by then",
		file: "claim/statesync.go", test: "TestUploadRejectsAnotherContainer",
		old: " || current.Container != c.Container",
		new: "",
	},
	{
		desc: "packs are removed although a kept snapshot cannot be read",
		file: "snapshot/collect.go", test: "TestDamagedRoots",
		old: "garbage.subtract); err != nil {",
		new: "garbage.subtract); err != nil && len(kept) == 0 {",
	},
}
