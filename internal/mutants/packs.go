package main

// packRows are mutations of how snapshots are stored, and of the collection of
// what none needs any more.
var packRows = []mutation{
	{
		desc: "a pack is removed by the commit after the one that drops its snapshot", test: "TestDroppedPacksAreMarkedAndRemoved",
		file: "snapshot/collect.go",
		old:  `now.Sub(at) >= collectGrace && `,
		new:  `now.Sub(at) > 0 && `,
	},
	{
		desc: "packs are removed although a kept snapshot cannot be read", test: "TestDamagedRoots",
		file: "snapshot/collect.go",
		old:  `garbage.subtract); err != nil {`,
		new:  `garbage.subtract); err != nil && len(kept) == 0 {`,
	},
	{
		desc: "the pack that has only the root of a kept snapshot is garbage", test: "TestPackOfARootIsNeeded",
		file: "snapshot/collect.go",
		old: `	delete(s, in)
`,
	},
	{
		desc: "a mark of a clock that was ahead stays as long", test: "TestMarksOfTheFuture",
		file: "snapshot/collect.go",
		old:  `if t.After(now) {`,
		new:  `if t.After(now.Add(1e6 * collectGrace)) {`,
	},
	{
		desc: "a commit reads the roots that its caller knows", test: "TestRequestsOfACommit",
		file: "snapshot/collect.go",
		old:  `		if k.at == at {`,
		new:  `		if k.at == at && k.root == nil {`,
	},
	{
		desc: "a prune removes what was just dropped and had no room among the marks", test: "TestMarksAreBounded",
		file: "snapshot/prune.go",
		old:  `isMarked || dropped`,
		new:  `isMarked && !dropped`,
	},
	{
		desc: "a prune removes packs of uploads in progress", test: "TestPruneRemovesGarbage",
		file: "snapshot/prune.go",
		old:  `!isMarked && !p.isOld(o) {`,
		new:  `isMarked && !p.isOld(o) {`,
	},
	{
		desc: "a restored snapshot counts as stored again", test: "TestRestoredSnapshotKeepsItsPacks",
		file: "snapshot/restore.go",
		old: `		back.Parts[i].New = 0 // all of it is stored already
`,
		new: `		back.Parts[i].New += 0
`,
	},
	{
		desc: "a list of snapshots of which the numbers are negative is accepted", test: "TestManifestIsChecked",
		file: "snapshot/manifest_check.go",
		old:  `if n < 0 || n > maxNumber {`,
		new:  `if n < -maxNumber || n > maxNumber {`,
	},
	{
		desc: "a small compressed blob cannot be read", test: "TestSizesOfBlobs",
		file: "snapshot/pack/codec.go",
		old:  `zstd.WithSingleSegment(true)`,
		new:  `zstd.WithSingleSegment(false)`,
	},
	{
		desc: "a second frame decompresses to more than the blob's size", test: "TestBombs",
		file: "snapshot/pack/codec.go",
		old:  `zstd.WithDecodeAllCapLimit(true)`,
		new:  `zstd.WithDecodeAllCapLimit(false)`,
	},
	{
		desc: "an encrypted blob is accepted as another kind", test: "TestEncryptedBlobsAreBound",
		file: "snapshot/pack/codec.go",
		old:  `append(bytes.Clone(prefix), byte(kind))`,
		new:  `append(bytes.Clone(prefix), byte(kind)*0)`,
	},
	{
		desc: "an index has a file below a link", test: "TestInvalidRecords",
		file: "snapshot/index/reader.go",
		old:  `if it.leaf && isBelow(it.last, r.Path) {`,
		new:  `if it.leaf && isBelow(r.Path, it.last) {`,
	},
}
