package main

// followed are mutations of followed directories, plans and advice.
var followed = []mutation{
	{
		desc: "a fault of a file is an event again at each scan", test: "TestFollowedFilesEvents",
		file: "pool/followed.go",
		old:  `if f.Reported = reported; slices.Contains(reported, id) {`,
		new:  `if f.Reported = reported; slices.Contains(reported[:0], id) {`,
	},
	{
		desc: "the record of invalid files has no bound", test: "TestFollowedFilesAreBounded",
		file: "pool/followed.go",
		old:  `len(kept) >= maxInvalidFiles {`,
		new:  `len(kept) >= 1<<20 {`,
	},
	{
		desc: "a fault has the path of the server", test: "TestInvalidFile",
		file: "pool/followed.go",
		old:  `		e.File = "" // it is a path of the server`,
		new:  `		e.File = e.File // it is a path of the server`,
	},
	{
		desc: "a file of another directory takes over the events of this one", test: "TestFollowedFilesEvents",
		file: "pool/followed.go",
		old:  `if after == nil || f.Dir != found.Dir {`,
		new:  `if after == nil {`,
	},
	{
		desc: "a rejected file is not tried again", test: "TestRejectedFileIsTriedAgain",
		file: "cmd/hostler/follow_linux.go",
		old:  `		f.apply(ctx, f.rejected[file])`,
		new:  `		_ = f.apply`,
	},
	{
		desc: "a scan forgets the files that are invalid as before", test: "TestScanResult",
		file: "workload/directory.go",
		old:  `		if e.err == nil {`,
		new:  `		if e.err == nil || e.active == nil {`,
	},
	{
		desc: "a dry run applies what the server rejects", test: "TestPlanIsWhatApplyDoes",
		file: "pool/plan.go",
		old:  `w, err := m.accept(ctx, source, file, dir)`,
		new:  `w, err := workload.Parse(source, file)`,
	},
	{
		desc: "a plan counts containers by another rule than the pool", test: "TestPlanIsWhatApplyDoes",
		file: "pool/plan.go",
		old:  `if p.Replaced, err = m.replacedBy(ctx, c.after); err != nil {`,
		new:  `if p.Replaced, err = m.replacedBy(ctx, c.before); err != nil {`,
	},
	{
		desc: "hooks are one part of a revision", test: "TestDifferences",
		file: "workload/plan.go",
		old:  `if name == "hooks" && prefix == "" {`,
		new:  `if name == "hooks" && prefix != "" {`,
	},
	{
		desc: "a fixed tag is a tag that moves", test: "TestAdvice",
		file: "workload/advice.go",
		old:  `case tag == "latest":`,
		new:  `case tag != "":`,
	},
	{
		desc: "a user that cannot enter its directory is accepted", test: "TestUserThatCannotEnter",
		file: "runtime/process/user.go",
		old:  `info.Mode().Perm()&0o011 == 0 {`,
		new:  `info.Mode().Perm() == 0 {`,
	},
}
