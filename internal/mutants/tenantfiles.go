package main

// tenantFiles are mutations of what works on files of tenants.
var tenantFiles = []mutation{
	{
		desc: "an absolute link is followed from the allowed directory", test: "TestPathTricks",
		file: "cmd/hostler-shim/beneath.go",
		old:  `case n == 0 || target[0] == '/':`,
		new:  `case n == 0:`,
	},
	{
		desc: "a loop of links never ends", test: "TestPathTricks",
		file: "cmd/hostler-shim/beneath.go",
		old: `	if b.links++; b.links > maxLinks {
		return unix.ELOOP
	}`,
		new: `	if b.links++; b.links > maxLinks {
		return unix.ENOENT
	}`,
	},
	{
		desc: "a link is opened as what it leads to", test: "TestPathTricks",
		file: "cmd/hostler-shim/beneath.go",
		old:  `fd, err := openAt(at, part, unix.O_PATH, 0)`,
		new:  `fd, err := unix.Openat(at, part, unix.O_PATH, 0)`,
	},
	{
		desc: "a broken upload replaces the file", test: "TestBrokenUpload", pkg: "cmd/hostler-shim",
		file: "runtime/shim/file.go",
		old:  `		return io.ErrUnexpectedEOF`,
		new:  `		return io.EOF`,
	},
	{
		desc: "a part of an upload is left behind", test: "TestBrokenUpload",
		file: "cmd/hostler-shim/file_write.go",
		old:  `func() { _ = unix.Unlinkat(dir, part, 0) })`,
		new:  `func() {})`,
	},
	{
		desc: "a mount point is removed", test: "TestRemove",
		file: "cmd/hostler-shim/file_write.go",
		old:  `if isMountPoint(dir, base, st.Dev) {`,
		new:  `if isMountPoint(dir, base, st.Dev) && base == "" {`,
	},
	{
		desc: "computed files are empty", test: "TestReadOfComputedFiles",
		file: "cmd/hostler-shim/file_read.go",
		old:  `if entry.Size == 0 || isComputed(fd) {`,
		new:  `if entry.Size < 0 {`,
	},
	{
		desc: "a file that became shorter is complete", test: "TestReadOfFileThatShrinks",
		file: "cmd/hostler-shim/file_read.go",
		old:  `if err == nil && n < length {`,
		new:  `if err == nil && n < 0 {`,
	},
	{
		desc: "pipes and devices are read", test: "TestReadOfOtherFiles",
		file: "cmd/hostler-shim/file_place.go",
		old:  `if st.Mode&unix.S_IFMT != kind {`,
		new:  `if st.Mode&unix.S_IFMT == unix.S_IFDIR && kind != unix.S_IFDIR {`,
	},
	{
		desc: "a file has a negative size", test: "TestForgedFileOutput",
		file: "runtime/shim/backend/fileinfo.go",
		old:  `e.Size < 0,`,
		new:  `e.Size < -1,`,
	},
	{
		desc: "a directory lists its parent", test: "TestForgedFileOutput",
		file: "runtime/shim/backend/fileinfo.go",
		old:  `name != "." && name != ".." &&`,
		new:  `name != "." &&`,
	},
	{
		desc: "content that ends early is complete", test: "TestForgedContent",
		file: "runtime/shim/backend/filecontent.go",
		old:  `	if c.left > 0 {`,
		new:  `	if c.left > 1<<40 {`,
	},
	{
		desc: "there is more content than was announced", test: "TestForgedContent",
		file: "runtime/shim/backend/filecontent.go",
		old:  `	if int64(n) > c.left {`,
		new:  `	if int64(n) > c.left+1<<40 {`,
	},
	{
		desc: "a lost connection fails a look at a file", test: "TestTenantFileLostConnection",
		file: "runtime/shim/backend/fileprogram.go",
		old:  `if attempt == 2 ||`,
		new:  `if attempt == 1 ||`,
	},
	{
		desc: "a slow client is taken for a program that is stopped", test: "TestTenantFileStoppedProgram",
		file: "runtime/shim/backend/filecommand.go",
		old:  `	if f.due.Load() {`,
		new:  `	if f.due.Load() || f.silent != nil {`,
	},
	{
		desc: "a program that is no longer needed continues", test: "TestTenantFileClosedEarly",
		file: "runtime/shim/backend/filecommand.go",
		old: `		f.closed = true
		f.end()`,
		new: `		f.closed = true`,
	},
	{
		desc: "a command that ends while its input is written ends init", test: "TestCommandEndsWhileInputIsWritten",
		file: "cmd/hostler-shim/command.go",
		old:  `c.pending[min(n, len(c.pending)):]`,
		new:  `c.pending[n:]`,
	},
}
