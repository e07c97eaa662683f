package main

// tools are mutations of what authors of hooks use: validate and dry runs.
var tools = []mutation{
	{
		desc: "an unreadable file is not a failure", test: "TestValidateDirectories",
		file: "cmd/hostler/validate_files.go",
		old: `	if err != nil {
		v.addUnread(f, err)
		return f`,
		new: `	if err != nil {
		return f`,
	},
	{
		desc: "an empty directory is valid", test: "TestValidateDirectories",
		file: "cmd/hostler/validate_files.go",
		old:  `if err == nil && len(names) == 0 {`,
		new:  `if err == nil && names == nil && v.all {`,
	},
	{
		desc: "copied hooks are checked without those that their workload copies", test: "TestValidateCopiedHooks",
		file: "cmd/hostler/validate_files.go",
		old:  `if v.resolve(other); other.workload.HooksFrom`,
		new:  `if other.workload.HooksFrom`,
	},
	{
		desc: "workloads that copy each other's hooks are valid", test: "TestValidateCopiedHooks",
		file: "cmd/hostler/validate_files.go",
		old:  `if other.isResolving {`,
		new:  `if other == f {`,
	},
	{
		desc: "a command that does not parse is valid", test: "TestValidateCommands", pkg: "cmd/hostler",
		file: "workload/lint.go",
		old:  `case f.Class == lint.Invalid, f.Class`,
		new:  `case f.Class`,
	},
	{
		desc: "what is forbidden is a note in CFN's form", test: "TestLint",
		file: "workload/lint.go",
		old:  `f.Class == lint.Forbidden && h.form == textForm:`,
		new:  `f.Class == lint.Forbidden && h.form == listedForm:`,
	},
	{
		desc: "a dry run shows a secret that another hook uses", test: "TestPoint",
		file: "hooks/dryrun/dryrun.go",
		old: `	d.redact()
`,
		new: ``,
	},
	{
		desc: "what only a response supplies is not shown as missing", test: "TestPoint",
		file: "hooks/dryrun/hook.go",
		old:  `Missing: !ok || value.Text == ""}`,
		new:  `Missing: ok && value.Text == ""}`,
	},
	{
		desc: "hooks whose condition is false are shown as running", test: "TestPoint",
		file: "hooks/dryrun/hook.go",
		old:  `!out.Disabled && out.Holds && out`,
		new:  `!out.Disabled && out`,
	},
	{
		desc: "a test starts in a container that a flow has", test: "TestLiveTestAndRelease", pkg: "delivery",
		file: "store/deliveries.go",
		old: `		if p.Fence, err = permitCommand(t, r); err != nil {
			return err
		}
		if err := checkNoTest(`,
		new: `		if err := checkNoTest(`,
	},
	{
		desc: "a release does not end a test", test: "TestLiveTestAndRelease",
		file: "delivery/livetest.go",
		old:  `	defer s.addCommand(run, cancel)() // before`,
		new:  `	s.addCommand(run, cancel)() // before`,
	},
	{
		desc: "the runs of a test are those of its point", test: "TestLiveTest", pkg: "delivery",
		file: "hooks/run.go",
		old:  `r.Event, r.Point = testPrefix+string(r.Point), ""`,
		new:  `r.Event = testPrefix + string(r.Point)`,
	},
	{
		desc: "a test is left to a flow that does not resume it", test: "TestTakeOverResumesHookRuns",
		file: "release/recover.go",
		old:  `if r.Event != "" && !r.IsTest() {`,
		new:  `if r.Event != "" {`,
	},
	{
		desc: "a test is requested again if its response was lost", test: "TestHookTestsAreNotRetried",
		file: "client/hooktests.go",
		old:  `, noRetry: true,`,
		new:  `,`,
	},
	{
		desc: "tests of a claim overlap on two servers", test: "TestLiveTestsDoNotOverlap", pkg: "delivery",
		file: "store/deliveries.go",
		old: `		if err := checkNoTest(t, r.Claim); err != nil {
			return err
		}
`,
		new: ``,
	},
	{
		desc: "a test begins between two hooks of another", test: "TestLiveTestIsWhole",
		file: "delivery/livetest.go",
		old:  `	s.tested[claim] = true`,
		new:  ``,
	},
	{
		desc: "what a test captured is used by other hooks", test: "TestLiveTestCaptures",
		file: "delivery/livetest.go",
		old:  `	run.Values = nil`,
		new:  ``,
	},
	{
		desc: "a test has no node", test: "TestNodeOfTest",
		file: "hooks/runner/preview.go",
		old:  `	if s.node, err = r.nodeOf(ctx, []hooks.Hook{h}, s); err != nil {`,
		new:  `	if err != nil {`,
	},
	{
		desc: "a test continues after a failure that ends the point", test: "TestLiveTest",
		file: "delivery/livetest.go",
		old:  `case run.State != hooks.Succeeded && !continues(h):`,
		new:  `case run.State == hooks.Unknown && !continues(h):`,
	},
	{
		desc: "a pipe in a directory blocks validate", test: "TestValidatePipes",
		file: "cmd/hostler/validate_files.go",
		old:  `v.checkFile(name, read))`,
		new:  `v.checkFile(name, func(name string) ([]byte, error) { _ = read; return readFile(v.in, name) }))`,
	},
	{
		desc: "guards do not enforce a pattern", test: "TestDestructive",
		file: "hooks/lint/rules.go",
		old:  `{"mkfs", Forbidden, true,`,
		new:  `{"mkfs", Forbidden, false,`,
	},
	{
		desc: "variables in JSON in single quotes are not noted", test: "TestAdvice",
		file: "hooks/lint/advice.go",
		old:  `		if w == nil || !jsonRegexp`,
		new:  `		if w != nil || !jsonRegexp`,
	},
	{
		desc: "programs with variables of their own have notes", test: "TestAdvice",
		file: "hooks/lint/advice.go",
		old:  `slices.Contains(withVariables, path`,
		new:  `slices.Contains(withVariables[3:], path`,
	},
	{
		desc: "a dry run has no example of a wait", test: "TestWait",
		file: "hooks/dryrun/dryrun.go",
		old:  `Wait: runner.SampleWait(p, d.sample)}`,
		new:  `Wait: runner.SampleWait(hooks.PreStart, d.sample)}`,
	},
	{
		desc: "a dry run of a point of a claim has no source", test: "TestClaimSource",
		file: "hooks/dryrun/dryrun.go",
		old:  `		s.Source = d.sample("CLAIM_SOURCE", "fresh")`,
		new:  `		s.Source = ""`,
	},
	{
		desc: "names with a dollar in JSON are noted", test: "TestAdvice",
		file: "hooks/lint/advice.go",
		old:  `dollarNameRegexp.ReplaceAllString(q.Value, "")`,
		new:  `q.Value`,
	},
	{
		desc: "a dry run has no example of an event of a wait", test: "TestWait",
		file: "hooks/dryrun/dryrun.go",
		old:  `sampleData(types[0])))`,
		new:  `sampleData("")))`,
	},
	{
		desc: "a test in a container has no example of a wait", test: "TestWaitOfTest",
		file: "hooks/runner/preview.go",
		old:  `	if s.Wait == nil {`,
		new:  `	if s.Wait != nil {`,
	},
	{
		desc: "long options cannot be abbreviated", test: "TestForbidden",
		file: "hooks/lint/rules.go",
		old:  `strings.HasPrefix(name, given) })`,
		new:  `name == given })`,
	},
	{
		desc: "options after -- count", test: "TestNotForbidden",
		file: "hooks/lint/rules.go",
		old:  `case text == "--":`,
		new:  `case text == "---":`,
	},
	{
		desc: "the global options of git hide its command", test: "TestForbidden",
		file: "hooks/lint/rules.go",
		old:  `[]string{"-C", "-c", "--git-dir"`,
		new:  `[]string{"--git-dir"`,
	},
	{
		desc: "here-documents of shells are not read", test: "TestForbidden",
		file: "hooks/lint/wrappers.go",
		old:  `if !isText && (isStdin || len(args) == 0) {`,
		new:  `if !isText && isStdin {`,
	},
	{
		desc: "the arguments of a script are not judged", test: "TestForbidden",
		file: "hooks/lint/wrappers.go",
		old:  `if len(args) > 2 {`,
		new:  `if len(args) > 99 {`,
	},
	{
		desc: "commands in commands have no bound", test: "TestNesting",
		file: "hooks/lint/wrappers.go",
		old:  `if j.depth >= maxDepth {`,
		new:  `if j.depth > 99*maxDepth {`,
	},
	{
		desc: "the options of a command are those of each program that starts it", test: "TestNesting",
		file: "hooks/lint/wrappers.go",
		old: `			own = own[:len(own)-len(rest)]
`,
		new: `			_ = rest
`,
	},
	{
		desc: "runuser starts a command also without a user", test: "TestForbidden",
		file: "hooks/lint/wrappers.go",
		old:  `return o.has("u") || o.long("user")`,
		new:  `return o.has("u") || true`,
	},
	{
		desc: "a shell that understands more is not considered", test: "TestLanguages",
		file: "hooks/lint/lint.go",
		old:  `"ash": {syntax.LangPOSIX, true}, "dash"`,
		new:  `"ash": {syntax.LangPOSIX, false}, "dash"`,
	},
	{
		desc: "every script is read as a shell's", test: "TestLanguages",
		file: "hooks/lint/lint.go",
		old:  `if l, ok := languages[name]; ok {`,
		new:  `if l, ok := languages[name]; ok || len(name) > 3 {`,
	},
	{
		desc: "a dry run shows a secret that no hook of the report uses", test: "TestUnusedSecret",
		file: "hooks/dryrun/dryrun.go",
		old:  `	s.requests.AddSecrets(w.Secrets)`,
		new:  ``,
	},
	{
		desc: "what the templates of a dry run expand to is not bounded", test: "TestReportIsBounded",
		file: "hooks/dryrun/hook.go",
		old:  `	if d.size += len(v.Text); d.size > maxSize {`,
		new:  `	if false {`,
	},
	{
		desc: "the envelopes of a dry run are not bounded", test: "TestEnvelopesAreBounded",
		file: "hooks/dryrun/hook.go",
		old:  `	if d.size += len(a.Envelope); d.size > maxSize {`,
		new:  `	if false {`,
	},
}
