package main

// printedOutputs are mutations of what is kept and shown of outputs, and of the bounds
// of files that authors write.
var printedOutputs = []mutation{
	{
		desc: "the beginning of an output ends with a part of a secret", test: "TestNoPartOfSecretAtCut",
		file: "hooks/request/redact_cut.go",
		old:  `r.Redact(head[:max(0, len(head)-margin)])`,
		new:  `r.Redact(head)`,
	},
	{
		desc: "the end of an output that was cut begins with a part of a secret", test: "TestSecretsInParts",
		file: "cmd/hostler/redact_linux.go",
		old:  `		if o.Truncated {`,
		new:  `		if o.Truncated && o.Total < 0 {`,
	},
	{
		desc: "a secret with bytes that are no text is kept", test: "TestPrintedSecrets",
		file: "hooks/request/redact.go",
		old:  `[]string{v, storable(v)}`,
		new:  `[]string{v}`,
	},
	{
		desc: "a secret of which each stream has a part is kept", test: "TestSecretInPartsOfCheck",
		file: "pool/output.go",
		old:  `all.Tail = r.redacted(all.Tail)`,
		new:  `all.Tail += ""`,
	},
	{
		desc: "viewers read what a hook printed in the reason of a claim", test: "TestPrintedReasons",
		file: "api/printed.go",
		old:  `tenant != "" && !v.output`,
		new:  `tenant == "" && !v.output`,
	},
	{
		desc: "viewers read what a hook printed in events", test: "TestPrintedReasons",
		file: "api/redact.go",
		old:  `	e = v.reasons(e)`,
		new:  `	_ = v.reasons(e)`,
	},
	{
		desc: "a hook that was ended by its timeout shows what it printed", test: "TestWithoutOutput",
		file: "hooks/printed.go",
		old:  `|ran longer than its timeout(?: of [^\s:]+)? and was terminated`,
		new:  ``,
	},
	{
		desc: "a followed directory has any number of files", test: "TestFollowedFilesAreBounded",
		file: "workload/directory_bounds.go",
		old:  `f.omit(others, max(0, MaxFollowedFiles-f.places(known)))`,
		new:  `f.omit(others, MaxFollowedFiles)`,
	},
	{
		desc: "new files of a followed directory have any size together", test: "TestFollowedBytesAreBounded",
		file: "workload/directory_bounds.go",
		old:  `return total <= maxFollowedBytes`,
		new:  `return total >= 0`,
	},
	{
		desc: "copies of hooks_from repeat comments", test: "TestCommentsAreNotMultiplied",
		file: "workload/inherit.go",
		old:  `	c[n] = true`,
		new:  `	c[n] = false`,
	},
	{
		desc: "a trial trusts a directory that a group of users can write to", test: "TestTrialParent",
		file: "cmd/hostler/trialowner_linux.go",
		old:  `return mode.Perm()&0o020 != 0 && gid`,
		new:  `return mode.Perm()&0o020 > 020 && gid`,
	},
	{
		desc: "a watch asks the server without a pause", test: "TestWatchIntervalIsBounded",
		file: "cmd/hostler/watch.go",
		old:  `w.interval < minWatchInterval`,
		new:  `w.interval < -minWatchInterval`,
	},
}
