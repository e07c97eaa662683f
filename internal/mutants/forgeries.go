package main

// forgeryRows are mutations of what protects tenants' state from who can write the
// bucket, and the server from hostile archives and containers.
var forgeryRows = []mutation{
	{
		desc: "a pack of another owner is decrypted", test: "TestForgedOwnerIsNotDecrypted",
		file: "snapshot/repository.go",
		old:  `Owner: h.Workload + "/" + h.Tenant, `,
	},
	{
		desc: "the hash of a root confirms a guess", test: "TestHashOfARootIsRandom",
		file: "snapshot/index/builder.go",
		old:  `_, _ = rand.Read(b.root.Nonce[:]) // it never fails`,
		new:  `_, _ = rand.Read(nil)`,
	},
	{
		desc: "a list of any number of elements is decoded", test: "TestHostileLists",
		file: "snapshot/manifest_check.go",
		old:  `if elements > 2*maxElements {`,
		new:  `if elements > 1000*maxElements {`,
	},
	{
		desc: "a list of snapshots leads out of an archive", test: "TestListLeadsOutOfAnArchive",
		file: "snapshot/manifest_check.go",
		old:  `path.Clean("/"+p.Path) != cmp.Or(p.Path, "/")`,
		new:  `cmp.Or(path.Clean("/"+p.Path), "/") == ""`,
	},
	{
		desc: "a snapshot's id is any part of a key", test: "TestHostileLists",
		file: "snapshot/manifest_check.go",
		old:  `if !snapshotName.MatchString(s.ID) {`,
		new:  `if s.ID == "" {`,
	},
	{
		desc: "a state beyond the limits is downloaded", test: "TestDownloadBeyondLimits",
		file: "snapshot/download.go",
		old:  `if bytes -= p.Bytes; bytes < 0 {`,
		new:  `if bytes -= p.Bytes; bytes < -p.Bytes {`,
	},
	{
		desc: "the headers before an entry have no end", test: "TestImportOfEndlessHeaders",
		file: "snapshot/import_entry.go",
		old:  `r.from.limit = r.end + maxHeader`,
		new:  `r.from.limit = r.end + 8*maxHeader`,
	},
	{
		desc: "a failed import leaves its packs", test: "TestFailedImportLeavesNothing",
		file: "snapshot/import.go",
		old: `		s.remove(ctx, own)
`,
	},
	{
		desc: "a container that is slow between files ends the server", test: "TestSlowSmallFiles",
		file: "snapshot/pace.go",
		old: `	if p.limit == nil {
		return context.Cause(p.ctx)
	}
`,
	},
	{
		desc: "a range that was cut is never asked for again", test: "TestCutRangesAreResumed",
		file: "snapshot/cloud/resume.go",
		old:  `r.resumed == maxResumes`,
		new:  `r.resumed <= maxResumes`,
	},
}
