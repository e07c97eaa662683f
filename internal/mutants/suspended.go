package main

// suspendedRows are mutations of what an upload checks before it commits, of an
// import's memory, and of what an update of a container compares.
var suspendedRows = []mutation{
	{
		desc: "a suspended upload commits what was pruned", test: "TestSuspendedUploadDoesNotCommit",
		file: "snapshot/manifest.go",
		old:  `if next.admit != nil {`,
		new:  `if next.admit != nil && next.Generation == 0 {`,
	},
	{
		desc: "a suspended import commits what was pruned", test: "TestSuspendedUploadDoesNotCommit",
		file: "snapshot/import.go",
		old: `	next.admit = admitInTime(began)
`,
		new: `	_ = admitInTime(began)
`,
	},
	{
		desc: "a discard during the last put is ignored", test: "TestDiscardOnPeerBeforeCommit", pkg: "release",
		file: "snapshot/upload.go",
		old:  `return u.origin.Verify(ctx)`,
		new:  `return nil`,
	},
	{
		desc: "an upload that was not admitted leaves its packs", test: "TestDiscardOnPeerBeforeCommit", pkg: "release",
		file: "snapshot/upload_pass.go",
		old: `	if errors.Is(err, errNotAdmitted) {
		p.remove(ctx, s.own)
	}
`,
	},
	{
		desc: "an import counts less memory than it needs", test: "TestImportMemoryIsCounted",
		file: "snapshot/import_entry.go",
		old:  `recordMemory    = 208 `,
		new:  `recordMemory    = 104 `,
	},
	{
		desc: "a mark of a server that is behind has no grace", test: "TestMarkWithoutTheTime",
		file: "snapshot/collect.go",
		old:  `		now = unknownTime`,
		new:  `		now = time.Now().UTC()`,
	},
	{
		desc: "a damaged tar is refused without a place", test: "TestImportRefusals",
		file: "snapshot/import_entry.go",
		old: `	r.last = h.Name
`,
	},
	{
		desc: "a file that differs in its time is not written", test: "TestDownloadDifferenceOfAttributes",
		file: "snapshot/download_difference.go",
		old:  `!held.ModTime.Equal(r.ModTime) || `,
	},
	{
		desc: "a link that differs in its owner is not written", test: "TestDownloadDifferenceOfAttributes",
		file: "snapshot/download_difference.go",
		old:  `if hasSameMode(listed, r.Entry) && listed.Target == r.Target {`,
		new:  `if listed.Target == r.Target {`,
	},
	{
		desc: "a change in the clock's step of the write is missed", test: "TestDownloadDifferenceInOneStep",
		file: "snapshot/download_difference.go",
		old:  ` || !listed.ModTime.Equal(held.ModTime)`,
	},
	{
		desc: "an unchanged upload of a later claim is not recorded", test: "TestOlderClaimLoses",
		file: "snapshot/upload.go",
		old:  `t.Unchanged && u.previous.Fence == u.origin.Fence && `,
		new:  `t.Unchanged && `,
	},
	{
		desc: "a failed upload leaves the packs that it has stored", test: "TestBrokenUploadLeavesNothing",
		file: "snapshot/upload_pass.go",
		old: `		p.remove(ctx, s.own)
		return Transfer{}, err
`,
		new: `		return Transfer{}, err
`,
	},
	{
		desc: "more stamps than files end the server", test: "TestMoreStampsThanFiles",
		file: "snapshot/download_seen.go",
		old:  `if l.failed || l.pending == 0 {`,
		new:  `if l.failed {`,
	},
	{
		desc: "the list of an emptied container stays", test: "TestSeenListOfAnEmptiedContainer",
		file: "snapshot/download_seen.go",
		old:  `if err := b.Delete(ctx, key); err != nil {`,
		new:  `if err := ctx.Err(); err != nil {`,
	},
	{
		desc: "stamps are listed at other places than their files", test: "TestSeenListIsReplacedInOrder",
		file: "snapshot/upload_stamps.go",
		old:  `case known && l.begin == l.files-1:`,
		new:  `case known:`,
	},
}
