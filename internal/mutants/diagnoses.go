package main

// diagnoses are mutations of what operators are shown of failures, and of when a
// failure is one.
var diagnoses = []mutation{
	{
		desc: "an idle container that is lost early is a failed creation", test: "TestLostIdleContainersAreNoFailure",
		file: "pool/earlyexit.go",
		old:  `b.of(c.Revision).Failures == 0 {`,
		new:  `b.of(c.Revision).Failures < 0 {`,
	},
	{
		desc: "containers that are lost together count as consecutive exits", test: "TestLostIdleContainersAreNoFailure",
		file: "pool/earlyexit.go",
		old:  `return !c.CreatedAt.Before(x.at)`,
		new:  `return true`,
	},
	{
		desc: "a replacement that exits early is no failure", test: "TestEarlyExitOfReplacementIsAFailure",
		file: "pool/earlyexit.go",
		old:  `return !c.CreatedAt.Before(x.at)`,
		new:  `return false`,
	},
	{
		desc: "a claim does not wait for the creation after a failed one", pkg: "pool", test: "TestClaimDuringCreationAfterFailure",
		file: "claim/reserve.go",
		old:  `s.Fill.Failures > 0 && s.Containers[pool.Creating] == 0:`,
		new:  `s.Fill.Failures > 0:`,
	},
	{
		desc: "claims wait for a pool of which many creations have failed", pkg: "pool", test: "TestClaimDuringCreationAfterFailure",
		file: "claim/reserve.go",
		old:  `case s.Fill.State == pool.FillFailing, s.Fill`,
		new:  `case s.Fill`,
	},
	{
		desc: "validate reads compose files as workload files", test: "TestIsWorkload",
		file: "workload/recognize.go",
		old:  `		if slices.Contains(topFields, key) && (key`,
		new:  `		if slices.Contains(append(topFields, "services"), key) && (key`,
	},
	{
		desc: "a workload file with an error in its syntax is skipped", test: "TestIsWorkload",
		file: "workload/recognize.go",
		old:  `return topFieldLine.Match(source)`,
		new:  `return false`,
	},
	{
		desc: "the state of a tenant whose later claim succeeded is a finding", test: "TestDamagedSnapshotIsFound",
		file: "doctor/state.go",
		old:  `return len(last) == 1 && last[0].ID == c.ID, err`,
		new:  `return len(last) == 1, err`,
	},
	{
		desc: "a missing state key is taken for a defect of the sink", test: "TestHintsOfMissingKeys",
		file: "doctor/claims.go",
		old:  `			fix = hintFor(problem.upload, c)`,
		new:  `			_ = problem`,
	},
	{
		desc: "the last events are older than --since", test: "TestLastEventsSince",
		file: "cmd/hostler/events.go",
		old:  `		if e.Seq < first {`,
		new:  `		if e.Seq < first && n == 0 {`,
	},
	{
		desc: "an error names what is missing after what was being done", pkg: "claim", test: "TestErrorsOfMissingRecords",
		file: "store/read.go",
		old:  `	if errors.Is(err, missing) {`,
		new:  `	if errors.Is(err, missing) && doing == "" {`,
	},
	{
		desc: "doctor names the output of a container that has printed nothing", test: "TestFailingPoolDetails",
		file: "doctor/claims.go",
		old:  `if c.Output == pool.NoOutput { //`,
		new:  `if c.Output == "none" { //`,
	},
}
