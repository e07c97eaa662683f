package main

// treeAttacks are mutations of what a hostile container, or a crash, could make of a
// tenant's state.
var treeAttacks = []mutation{
	{
		desc: "a stamp is valid after a crash of the machine", test: "TestStampOfEarlierBoot",
		file: "cmd/hostler-shim/stamp.go",
		old:  `Inode: st.Ino ^ s.boot,`,
		new:  `Inode: st.Ino,`,
	},
	{
		desc: "a boot that is unknown is the same as another", test: "TestStampOfEarlierBoot",
		file: "cmd/hostler-shim/stamp.go",
		old:  `if st.Ctim.Nsec == 0 || s.boot == 0 {`,
		new:  `if st.Ctim.Nsec == 0 {`,
	},
	{
		desc: "a file has a stamp while a direct write is in progress", test: "TestStampOfOpenFile",
		file: "cmd/hostler-shim/stamp.go",
		old:  `ok := !s.mayBeWritten(own) && isMapped(`,
		new:  `ok := isMapped(`,
	},
	{
		desc: "a name that is too long is left out silently", test: "TestNameListLongNames",
		file: "cmd/hostler-shim/scan_names.go",
		old:  `if len(name) > tree.MaxName {`,
		new:  `if len(name) > 4096 {`,
	},
	{
		desc: "a read-only directory of a user without privileges cannot be updated", test: "TestWriteInReadOnlyDir",
		file: "cmd/hostler-shim/write_tree.go",
		old:  `if errors.Is(err, unix.EACCES) && w.allowChanges(`,
		new:  `if errors.Is(err, unix.EROFS) && w.allowChanges(`,
	},
	{
		desc: "a directory that was made writable stays so", test: "TestWriteInReadOnlyDir",
		file: "cmd/hostler-shim/write_tree.go",
		old:  `Mode: st.Mode, ModTime: time.Unix(st.Mtim.Unix())`,
		new:  `Mode: 0o755, ModTime: time.Unix(st.Mtim.Unix())`,
	},
	{
		desc: "a container stores many times the size of its files", test: "TestShortHoles",
		file: "snapshot/upload_content.go",
		old:  `if hole < minHole && hole > 0 {`,
		new:  `if hole < 0 {`,
	},
	{
		desc: "a file that comes byte by byte is not slow", test: "TestTinyExtentsAreSlow",
		file: "snapshot/pace_scan.go",
		old:  `c.endWait(len(data) + int(min(hole, paceOfEntry))); cut`,
		new:  `c.endWait(max(len(data), paceOfEntry)); cut`,
	},
	{
		desc: "a state of links has no limit", test: "TestTargetsOfLinksCount",
		file: "snapshot/bounds.go",
		old:  `	if e.Kind == tree.Link {`,
		new:  `	if e.Kind == tree.Link && size > 0 {`,
	},
}
