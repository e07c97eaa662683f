package main

// uploadRows are mutations of the uploads of package snapshot.
var uploadRows = []mutation{
	{
		desc: "a file whose stamp has changed is not read", test: "TestWhatIsRead",
		file: "snapshot/upload_last.go",
		old:  `!e.Stamp.IsZero() && e.Stamp == s.stamp, nil`,
		new:  `!e.Stamp.IsZero(), nil`,
	},
	{
		desc: "two files without a stamp are the same", test: "TestWhatIsRead",
		file: "snapshot/upload_last.go",
		old:  `		!e.Stamp.IsZero() && e.Stamp == s.stamp, nil`,
		new:  `		e.Stamp == s.stamp, nil`,
	},
	{
		desc: "a file below a link is uploaded", test: "TestHostileContainer",
		file: "snapshot/upload_entries.go",
		old:  `	if above && e.Kind == tree.Dir {`,
		new:  `	if above {`,
	},
	{
		desc: "a file may have more content than its size", test: "TestHostileContent",
		file: "snapshot/upload_content.go",
		old:  `len(data) > 0 && hole > 0 || size > r.left {`,
		new:  `len(data) > 0 && hole > 0 {`,
	},
	{
		desc: "what is new is stored although the container has failed", test: "TestBrokenScan",
		file: "snapshot/upload_store.go",
		old:  `	if !s.ended || len(s.built) == 0 {`,
		new:  `	if len(s.built) == 0 {`,
	},
	{
		desc: "a large upload does not wait for memory", test: "TestUploadMemoryQuota",
		file: "snapshot/quota.go",
		old:  `	if len(t.waiting) > 0 || req.size > t.free {`,
		new:  `	if len(t.waiting) > 0 {`,
	},
	{
		desc: "an upload with a damaged last index fails", test: "TestDamagedIndexIsReplaced",
		file: "snapshot/upload.go",
		old:  `errors.Is(err, ErrCorrupt) && !u.fresh:`,
		new:  `errors.Is(err, ErrCorrupt) && u.fresh:`,
	},
	{
		desc: "small packs are never replaced", test: "TestPacksAreReplaced",
		file: "snapshot/compaction.go",
		old:  `	if len(small) < minCompacted {`,
		new:  `	if len(small) >= minCompacted {`,
	},
	{
		desc: "chunks of a replaced pack are not stored again", test: "TestPacksAreReplaced",
		file: "snapshot/upload_store.go",
		old:  `		if c.Hole > 0 || !s.last.avoid[c.Ref.Pack] {`,
		new:  `		if c.Hole >= 0 || !s.last.avoid[c.Ref.Pack] {`,
	},
	{
		desc: "a removed file is no change", test: "TestModes",
		file: "snapshot/upload_scan.go",
		old: `func (s *partScan) dropOld() error {
	if err := s.out.change(); err != nil {
		return err
	}
`,
		new: `func (s *partScan) dropOld() error {
	if !s.out.changed {
		return s.old.nextEntry()
	}
`,
	},
	{
		desc: "listing files is no progress", test: "TestListingIsProgress",
		file: "snapshot/pace_scan.go",
		old:  `s.endWait(paceOfEntry * len(entries)); cut`,
		new:  `s.endWait(0); cut`,
	},
}
