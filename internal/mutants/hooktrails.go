package main

// hookTrails are mutations of the records of hooks that run one after the other.
var hookTrails = []mutation{
	{
		desc: "the end of a hook is not recorded with the start of the next", test: "TestEndIsRecordedWithNextStart",
		file: "hooks/runner/trail.go",
		old:  `if t.hasNext && run.State`,
		new:  `if false && run.State`,
	},
	{
		desc: "an end that could not be recorded with the next start is lost", test: "TestEndIsRecordedWithoutNextStart",
		file: "hooks/runner/trail.go",
		old: `	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := recorder`,
		new: `	t.held = nil
	if err := recorder`,
	},
	{
		desc: "a hook starts although that could not be recorded with the end before it", test: "TestEndIsRecordedWhenNextMayNotStart",
		file: "hooks/runner/trail.go",
		old:  `recorder.RunFollowed(ctx, *t.held, run) == nil {`,
		new:  `recorder.RunFollowed(ctx, *t.held, run) != errHookEnded {`,
	},
	{
		desc: "the end of a hook is recorded after a later one was skipped", test: "TestEndIsRecordedBeforeOthers",
		file: "hooks/runner/point.go",
		old:  `if reason != "" || len(prior[i]) > 0 {`,
		new:  `if false {`,
	},
	{
		desc: "the end of a hook before disabled ones is not recorded", test: "TestEndIsRecordedBeforeOthers",
		file: "hooks/runner/point.go",
		old:  `if failure := t.flush(ctx); failure != nil {`,
		new:  `if failure := ctx.Err(); failure != nil {`,
	},
	{
		desc: "a point succeeds although the end of a hook was not recorded", test: "TestHeldEndThatIsNotRecorded",
		file: "hooks/runner/point.go",
		old:  `			err = errors.Join(err, failure)`,
		new:  `			_ = failure`,
	},
	{
		desc: "a run that may not start leaves the end of the one before", test: "TestSQLite",
		file: "store/runs.go",
		old: `		return addRunning(t, started)
`,
		new: `		_ = addRunning(t, started)
		return nil
`,
	},
	{
		desc: "runs that start with the end of others are not counted", test: "TestRunsAreCountedAndLogged",
		file: "cmd/hostler/metrics_linux.go",
		old: `		c.end(ctx, ended)
		c.begin(started)`,
		new: `		c.end(ctx, ended)`,
	},
	{
		desc: "the end of a claim and that of a run wait for each other", test: "TestRunFollowedLocksClaimFirst",
		file: "store/runs.go",
		old: `		if err := checkNotEnded(t, started); err != nil {
			return err
		}
		if err := closeRun(t, ended); err != nil {
			return err
		}
`,
		new: `		if err := closeRun(t, ended); err != nil {
			return err
		}
		if err := checkNotEnded(t, started); err != nil {
			return err
		}
`,
	},
	{
		desc: "the end of a hook is recorded after a later one was skipped, in the model", test: "TestRecordsOfPointsModel",
		file: "hooks/runner/point.go",
		old:  `if reason != "" || len(prior[i]) > 0 {`,
		new:  `if false {`,
	},
}
