package main

// archives are mutations of verifications, exports and imports of snapshots.
var archives = []mutation{
	{
		desc: "a tar that was cut between two entries is imported", test: "TestImportRefusals",
		file: "snapshot/import_entry.go",
		old:  `if r.from.at-r.end < 2*tarBlock {`,
		new:  `if r.from.at < r.end {`,
	},
	{
		desc: "a file below a link is imported", test: "TestImportRefusals",
		file: "snapshot/import.go",
		old:  `if file != "" && strings.HasPrefix(r.Path, file+"/") {`,
		new:  `if file == "/" {`,
	},
	{
		desc: "the size of hard links does not count", test: "TestImportLimits",
		file: "snapshot/import.go",
		old: `		if err := im.limits.keepSize(r.Size); err != nil {
			return err
		}
	}
	return nil
}
`,
		new: `	}
	return nil
}
`,
	},
	{
		desc: "files that a pattern excludes have no limit", test: "TestImportLimits",
		file: "snapshot/import_entry.go",
		old:  `l.bytes/(maxExcluded+1) > l.sync.MaxSize || `,
		new:  ``,
	},
	{
		desc: "the records of an import have no limit of memory", test: "TestImportMemory",
		file: "snapshot/import_entry.go",
		old:  `if l.memory > maxImportMemory {`,
		new:  `if l.memory > 2*maxImportMemory {`,
	},
	{
		desc: "an import becomes current although the tenant has claimed", test: "TestImportNeedsNoClaim", pkg: "claim",
		file: "snapshot/import.go",
		old:  `err = before(ctx, current)`,
		new:  `_ = before`,
	},
	{
		desc: "an export that fails looks complete", test: "TestExportSnapshot", pkg: "api",
		file: "api/archives.go",
		old: `		panic(http.ErrAbortHandler)
`,
		new: ``,
	},
	{
		desc: "a segment of an index that is damaged ends the verification of its part", test: "TestVerifyDamagedIndex",
		file: "snapshot/verify.go",
		old: `			v.now.broken = true
`,
		new: `			v.now.broken = true
			break
`,
	},
	{
		desc: "a damaged chunk is taken for known", test: "TestVerifyNamesDamage",
		file: "snapshot/verify.go",
		old: `	err := v.content(ctx, ref)
	if err == nil {
`,
		new: `	err := v.content(ctx, ref)
	if err != nil {
		v.known[v.fingerprint(ref)] = struct{}{}
	}
	if err == nil {
`,
	},
	{
		desc: "one tenant verifies, exports and imports without a bound", test: "TestArchivesAreBounded", pkg: "claim",
		file: "claim/archives.go",
		old: `	case len(a.running) >= maxArchives:
`,
		new: `	case len(a.running) >= 100*maxArchives:
`,
	},
}
