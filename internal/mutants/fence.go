package main

// fences are about what keeps earlier flows, claims and servers from acting.
var fences = []mutation{
	{
		desc: "an older server is not rejected",
		file: "cmd/hostler-shim/fence.go", test: "TestFenceRefusesSmaller",
		old: "number < f.current ||",
		new: "number < f.current-1 ||",
	},
	{
		desc: "a command of an older flow runs",
		file: "cmd/hostler-shim/fence.go", test: "TestCommandsAndCopiesOfOlderFlow",
		old: "number < current {",
		new: "number < current-1 {",
	},
	{
		desc: "a connection of an earlier claim begins",
		file: "cmd/hostler-shim/ports.go", test: "TestPortFences",
		old: "if err := p.admit(fence); err != nil {\n\t\treturn nil, err",
		new: "if err := p.admit(fence); false {\n\t\treturn nil, err",
	},
	{
		desc: "a request of an ended claim is sent",
		file: "cmd/hostler-shim/asks.go", test: "TestAskHasFenceOfClaim",
		old: " || by.fence != a.admitted.Load()",
		new: "",
	},
	{
		desc: "a file is used whatever its claim's fence is",
		file: "access/files.go", test: "TestFileUses",
		old: "Within: within, Fence: g.Fence()}",
		new: "Within: within}",
	},
	{
		desc: "a hook carries no fence",
		file: "hooks/runner/variables.go", test: "TestHooksAndCopiesCarryFence", pkg: "claim",
		old: "a.Fence, a.Source = s.Fence, s.Source",
		new: "a.Source = s.Source",
	},
	{
		desc: "a command of an event hook starts in another tenant's container",
		file: "store/deliveries.go", test: "TestSQLite",
		old: "permitState(err, state, wanted, earlier)",
		new: "permitState(err, wanted, wanted, earlier)",
	},
	{
		desc: "a server without a lease uses the engine",
		file: "membership/guard.go", test: "TestGuardBlocksEveryChange",
		old: "CheckLease(); err != nil {",
		new: "CheckLease(); false {",
	},
	{
		desc: "one method of the runtime does not check the lease",
		file: "membership/guard.go", test: "TestGuardBlocksEveryChange",
		old: "g.held(func() error { return g.Runtime.Wipe(ctx, id, fence) })",
		new: "g.Runtime.Wipe(ctx, id, fence)",
	},
	{
		desc: "a lease is trusted for longer than it lasts",
		file: "membership/lease.go", test: "TestOutages",
		old: "now.since(l.begin) < LeaseTime",
		new: "now.since(l.begin) < LeaseTime+2*TakeoverMargin",
	},
	{
		desc: "a leader begins before the last one is fenced",
		file: "membership/leader.go", test: "TestMembership",
		old: "first || t.incomplete;",
		new: "first;",
	},
}
