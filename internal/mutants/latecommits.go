package main

// lateCommits are mutations of what holds when requests arrive late, clocks are
// wrong and containers are killed.
var lateCommits = []mutation{
	{
		desc: "an upload that is canceled where a file begins panics", test: "TestUploadEndsWhereAFileBegins",
		file: "snapshot/pace.go",
		old: `	if p.limit == nil {
		return context.Cause(p.ctx)
	}
`,
		new: ``,
	},
	{
		desc: "a release that finds the state unchanged takes no number", test: "TestLateCommitOfEarlierUpload",
		file: "snapshot/upload.go",
		old:  ` && u.origin.Reason != releaseReason`,
		new:  ``,
	},
	{
		desc: "the time of a bucket is that of the server", test: "TestGraceWithWrongClocks",
		file: "snapshot/clock.go",
		old:  `c.time, c.read = o.Time, time.Now()`,
		new:  `c.time, c.read = time.Now(), time.Now()`,
	},
	{
		desc: "packs are removed while the time is not known", test: "TestClockCannotBeRead",
		file: "snapshot/collect.go",
		old:  `case exact && now`,
		new:  `case now`,
	},
	{
		desc: "packs of a dropped snapshot whose root was not read have no grace", test: "TestUnreadRootsKeepTheGrace",
		file: "snapshot/collect.go",
		old:  `incomplete = !isDamage(err)`,
		new:  `incomplete = isDamage(err)`,
	},
	{
		desc: "packs that are not marked because a kept root was not read have no grace", test: "TestUnreadRootsKeepTheGrace",
		file: "snapshot/collect.go",
		old:  `incomplete || len(dropped) > 0, nil`,
		new:  `incomplete, nil`,
	},
	{
		desc: "a file of which nothing has come is not counted", test: "TestBrokenRawDownloadCounts",
		file: "snapshot/raw_objects.go",
		old: `	d.done.Files++ // first: after a failure it may be there, and the container is not what it was
`,
		new: ``,
	},
	{
		desc: "a verification of a snapshot that was replaced succeeds", test: "TestReplacedWhileRead",
		file: "snapshot/verify.go",
		old:  `replaced > 0 && id != ""`,
		new:  `replaced > 0 && id == ""`,
	},
	{
		desc: "an export of a snapshot that was replaced finds damage", test: "TestReplacedWhileRead",
		file: "snapshot/export.go",
		old:  `loadErr == nil && !now.has(read.ID)`,
		new:  `loadErr == nil && now.has(read.ID)`,
	},
	{
		desc: "a container that is killed while its state is read is not read again", test: "TestContainerKilledDuringUpload", pkg: "release",
		file: "release/upload.go",
		old: `errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrContainerExited) {
		op.unusable`,
		new: `errors.Is(err, runtime.ErrNotRunning) {
		op.unusable`,
	},
}
