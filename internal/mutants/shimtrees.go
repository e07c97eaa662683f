package main

// shimTrees are mutations of how trees move between containers and the server.
var shimTrees = []mutation{
	{
		desc: "a program lists what is outside of the directory", test: "TestBadEntries",
		file: "runtime/tree/entry.go",
		old:  `name == "." || name == ".." ||`,
		new:  `name == "." ||`,
	},
	{
		desc: "a program lists entries in any order", test: "TestBadEntries",
		file: "runtime/tree/entry.go",
		old:  `if o.path != "" && Compare(o.path, p) >= 0 {`,
		new:  `if o.path != "" && Compare(o.path, p) == 0 {`,
	},
	{
		desc: "a program sends more content than a file has", test: "TestBadScans",
		file: "runtime/tree/wire.go",
		old:  `size == 0 || size > uint64(c.left)`,
		new:  `size == 0`,
	},
	{
		desc: "a batch takes any memory", test: "TestBadScans",
		file: "runtime/tree/scan_stream.go",
		old:  `err == nil && (size > maxBatchSize || len(batch) == MaxBatch)`,
		new:  `err == nil && len(batch) == MaxBatch`,
	},
	{
		desc: "a program reports more stamps than files", test: "TestBadStamps",
		file: "runtime/tree/write_stream.go",
		old:  `s.stamped > s.files.Load() {`,
		new:  `s.stamped > s.files.Load()+1 {`,
	},
	{
		desc: "a scan reads what a link of a tenant leads to", test: "TestScanChangedFiles",
		file: "cmd/hostler-shim/scan_tree.go",
		old: `	dirs.followsNoLink = true
`,
	},
	{
		desc: "the names of a large directory take any memory", test: "TestNameList",
		file: "cmd/hostler-shim/scan_names.go",
		old:  `if l.size() <= limit {`,
		new:  `if l.size() <= 8*limit {`,
	},
	{
		desc: "the names of many large directories take any memory", test: "TestScanForgetsNames",
		file: "cmd/hostler-shim/scan_walk.go",
		old:  `w.held > maxHeldNames && i < len(w.levels)-1`,
		new:  `w.held > 8*maxHeldNames && i < len(w.levels)-1`,
	},
	{
		desc: "a file that has just changed has a stamp", test: "TestScanStamps",
		file: "cmd/hostler-shim/stamp.go",
		old:  `if st.Ctim.Nano() >= now.Add(-age).UnixNano() {`,
		new:  `if age < 0 {`,
	},
	{
		desc: "a page that is dirty changes without another stamp", test: "TestScanMapped",
		file: "cmd/hostler-shim/stamp.go",
		old:  `isMapped(own, math.MaxInt64, fiemapSync)`,
		new:  `isMapped(own, math.MaxInt64, fiemapSync-fiemapSync)`,
	},
	{
		desc: "a file in memory below an overlay has a stamp", test: "TestScanWithoutStamps",
		file: "cmd/hostler-shim/stamp.go",
		old:  `return isMapped(fd, 1, 0) // each file`,
		new:  `return true // each file`,
	},
	{
		desc: "a tree gives files to the program's own user", test: "TestWriteOwners",
		file: "cmd/hostler-shim/write_tree.go",
		old:  `if id := int(e.Owner); !isShimID(id) {`,
		new:  `if id := int(e.Owner); id >= 0 {`,
	},
	{
		desc: "a process changes a file that is being written, and its time is lost", test: "TestWriteHidesFile",
		file: "cmd/hostler-shim/write_tree.go",
		old:  `unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0)`,
		new:  `unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)`,
	},
	{
		desc: "a tree that was not sent completely is complete", test: "TestFillTreeFailedCall",
		file: "runtime/shim/tree_write.go",
		old:  `	if w.sendErr == nil {`,
		new:  `	if w.sendErr = nil; w.sendErr == nil {`,
	},
	{
		desc: "a program never finishes a tree", test: "TestFillTree",
		file: "runtime/shim/tree_write.go",
		old:  `if w.isSent && w.isWaiting {`,
		new:  `if w.isSent && w.isWaiting && w.isClosed {`,
	},
	{
		desc: "a scan begins although its caller has given up", test: "TestTreeCancelled",
		file: "runtime/shim/transfer.go",
		old:  `	if ctx.Err() != nil { // the stream would be reset too late`,
		new:  `	if ctx == nil {`,
	},
}
