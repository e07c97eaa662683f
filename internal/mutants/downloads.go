package main

// downloads are mutations of the downloads of package snapshot, and of the
// updates of containers that hold another snapshot.
var downloads = []mutation{
	{
		desc: "a pack that is too short is not damage", test: "TestDownloadOfDamage",
		file: "snapshot/steps.go",
		old:  ` || errors.Is(err, io.ErrUnexpectedEOF)`,
		new:  ` && !errors.Is(err, io.ErrUnexpectedEOF)`,
	},
	{
		desc: "a download carries no fence", test: "TestDownloadFence",
		file: "snapshot/download_write.go",
		old:  `dir, d.to.Fence, stamped)`,
		new:  `dir, 0, stamped)`,
	},
	{
		desc: "the wait for the end of a tree has no limit", test: "TestStalledDownload",
		file: "snapshot/download_write.go",
		old:  `		err = w.wait(0, w.to.Close)`,
		new:  `		err = w.to.Close()`,
	},
	{
		desc: "chunks are read ahead without a limit", test: "TestDownloadMemory",
		file: "snapshot/fetch.go",
		old:  `	if f.used > used || f.count > count {`,
		new:  `	if f.count > count {`,
	},
	{
		desc: "requests read one chunk each", test: "TestDownloadLargeState",
		file: "snapshot/fetch.go",
		old:  `	return offset >= r.end && offset-r.end <= maxGap && end-r.offset <= maxRange`,
		new:  `	return offset < 0 && offset-r.end <= maxGap && end-r.offset <= maxRange`,
	},
	{
		desc: "a file that a process has changed stays", test: "TestDownloadDifference",
		file: "snapshot/download_difference.go",
		old:  `stamp != listed.Stamp || `,
		new:  ``,
	},
	{
		desc: "a file that the new snapshot has changed stays", test: "TestDownloadDifference",
		file: "snapshot/download_difference.go",
		old:  ` || !hasSameContent(held, *r) {`,
		new:  ` {`,
	},
	{
		desc: "files that the pattern excludes are removed", test: "TestDownloadRandomDifferences",
		file: "snapshot/download_difference.go",
		old:  `	if !matches(c.mapping.Pattern, e.Path) || c.isOfEarlier`,
		new:  `	if c.isOfEarlier`,
	},
	{
		desc: "files of a mapping before are removed", test: "TestDownloadDifferenceOfOverlappingMappings",
		file: "snapshot/download_difference.go",
		old:  ` || c.isOfEarlier(e.Path) || `,
		new:  ` || `,
	},
	{
		desc: "what is listed through a link counts as there", test: "TestDownloadDifferenceWithoutDirectory",
		file: "snapshot/download_part.go",
		old:  `		if err := t.makeDirs(ctx); err != nil {`,
		new:  `		if err := context.Cause(ctx); err != nil {`,
	},
	{
		desc: "a container is updated through links outside of volumes", test: "TestCanUpdate",
		file: "snapshot/covers.go",
		old:  `		if m.Volume == "" || m.Direction`,
		new:  `		if m.Direction`,
	},
	{
		desc: "the list of a failed download is stored", test: "TestDownloadSeenLists",
		file: "snapshot/download_part.go",
		old:  `	t.seen.end(err == nil)`,
		new:  `	t.seen.end(true)`,
	},
	{
		desc: "a container that is being updated holds a snapshot", test: "TestUpdateStepOrder", pkg: "claim",
		file: "pool/pool.go",
		old:  `Note(id, Claimed, func(c *Container) { c.Snapshot = "" }))`,
		new:  `Note(id, Claimed, func(c *Container) {}))`,
	},
	{
		desc: "a container is given back after a part of an update", test: "TestFailedUpdate", pkg: "claim",
		file: "claim/prepare.go",
		old: `	a.changed = true
	return a.StateSync.stop(`,
		new: `	return a.StateSync.stop(`,
	},
	{
		desc: "a container of unknown contents is updated", test: "TestUpdateOfUnknownContents", pkg: "claim",
		file: "claim/prepare.go",
		old:  `c.stale && container.Snapshot != "" && `,
		new:  `c.stale && `,
	},
}
