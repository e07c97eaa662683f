package main

// shownOutputs are mutations of what becomes of the output of containers, of files of
// authors, and of what they make the server keep.
var shownOutputs = []mutation{
	{
		desc: "a check's output is in the reason with secrets of hooks", test: "TestCheckOutputInReason",
		file: "pool/health.go",
		old:  `c.outputs.lastLines(c.outputs.ofCheck(res.Stderr))`,
		new:  `plainLine(res.Stderr.String())`,
	},
	{
		desc: "what a check printed in a tenant's container is in the reason", test: "TestCheckOutputOfTenant",
		file: "pool/output.go",
		old:  `ok && c.Tenant != "" {`,
		new:  `ok && c.Tenant == "-" {`,
	},
	{
		desc: "the beginning of an output is a part of a secret", test: "TestNoPartOfSecretIsKept",
		file: "pool/output.go",
		old:  `	if isCut {`,
		new:  `	if isCut && total < 0 {`,
	},
	{
		desc: "the tail of a check's output begins within a secret", test: "TestNoPartOfSecretOfCheckIsKept",
		file: "pool/output.go",
		old:  `r.kept(text, o.Truncated)`,
		new:  `r.kept(text, false)`,
	},
	{
		desc: "an author copies the hooks of any workload", test: "TestHooksOfOthersAreNotCopied",
		file: "api/workloads.go",
		old:  `permit(ctx, "", parsed.HooksFrom, "")`,
		new:  `permit(ctx, "", in.ID, "")`,
	},
	{
		desc: "aliases make a small file large", test: "TestAliasesAreBounded",
		file: "workload/node_checker.go",
		old:  `g.bytes += len(n.Value); g.bytes > MaxSize {`,
		new:  `g.bytes = len(n.Value); g.bytes > MaxSize {`,
	},
	{
		desc: "a file that changes again and again floods the log of events", test: "TestFollowedFilesEventsAreBounded",
		file: "pool/followed.go",
		old:  `after.Reported = reported; len(events) < most {`,
		new:  `after.Reported = reported; most >= 0 {`,
	},
	{
		desc: "each hour has no bound of events of files", test: "TestFollowedFilesDoNotFlood",
		file: "cmd/hostler/follow_linux.go",
		old:  `return maxFollowedEvents - a.n`,
		new:  `return maxFollowedEvents`,
	},
	{
		desc: "a refused claim adds a series of a made-up workload", test: "TestRefusedClaimsAddNoSeries",
		file: "cmd/hostler/metrics_linux.go",
		old:  `err != nil && !c.isWorkload(ctx, r.Workload):`,
		new:  `err != nil && r.Workload == "":`,
	},
	{
		desc: "a cleanup runs what another user has planted", test: "TestTrialOfOthers",
		file: "cmd/hostler/trialdir_linux.go",
		old:  ` || !isOwn(opened) {`,
		new:  ` {`,
	},
	{
		desc: "a trial begins where others can replace its directory", test: "TestTrialOfOthers",
		file: "cmd/hostler/trialowner_linux.go",
		old:  `mode.Perm()&0o002 != 0 {`,
		new:  `mode.Perm()&0o002 > 2 {`,
	},
	{
		desc: "a tenant has any number of streams of events", test: "TestFollowersAreBounded",
		file: "api/followers.go",
		old:  `if f.open[who] >= maxFollowers {`,
		new:  `if f.open[who] > 10*maxFollowers {`,
	},
	{
		desc: "the end of a stream of events is not counted", test: "TestStreamsOfTenantAreBounded",
		file: "api/follow.go",
		old: `		defer end()
`,
		new: `		_ = end
`,
	},
	{
		desc: "the log of a container has what it printed for the tenant before", test: "TestKeptOutputOfEarlierTenant",
		file: "pool/output.go",
		old:  `o.Tenant != "" && o.Tenant != c.Tenant {`,
		new:  `o.Tenant != "" && c.Tenant == "" {`,
	},
	{
		desc: "an event of a claim has what the container printed for the tenant before", test: "TestSQLite",
		file: "store/containers.go",
		old:  `e = e.WithoutOutput()`,
		new:  `e.Depth += 0`,
	},
}
