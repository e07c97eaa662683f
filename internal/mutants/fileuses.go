package main

// fileUses are mutations of how tenants use files through the API, its client and
// the command line.
var fileUses = []mutation{
	{
		desc: "a file is used without its gate's directories", test: "TestFileUses",
		file: "access/files.go",
		old:  `Within: within, Fence: g.Fence()}`,
		new:  `Within: within[:0], Fence: g.Fence()}`,
	},
	{
		desc: "a file is used whatever its claim's fence is", test: "TestFileUses",
		file: "access/files.go",
		old:  `Within: within, Fence: g.Fence()}`,
		new:  `Within: within}`,
	},
	{
		desc: "what a gate refuses holds a transfer", test: "TestFileUses",
		file: "access/files.go",
		old: `	if err != nil {
		end()
		return fileUse{}, err
	}`,
		new: `	if err != nil {
		return fileUse{}, err
	}`,
	},
	{
		desc: "a path may have ..", test: "TestFileUses",
		file: "access/files.go",
		old:  `slices.Contains(strings.Split(name, "/"), "..")`,
		new:  `slices.Contains(strings.Split(name, "/"), "...")`,
	},
	{
		desc: "a use that a release has ended has another error", test: "TestReleaseEndsFileUses",
		file: "access/files.go",
		old:  `claimErr == nil && c.State != claim.Active:`,
		new:  `claimErr != nil && c.State != claim.Active:`,
	},
	{
		desc: "a claim takes all transfers of the server", test: "TestTransferBounds",
		file: "access/slots.go",
		old:  `{"the claim", s.byClaim[claimID], s.perClaim},`,
		new:  `{"the claim", s.byClaim[claimID], s.total},`,
	},
	{
		desc: "the transfers of a server have no bound", test: "TestTransferBounds",
		file: "access/slots.go",
		old:  `{"this server", s.all, s.total},`,
		new:  `{"this server", 0, s.total},`,
	},
	{
		desc: "a tenant takes all connections of the server", test: "TestPortLimits",
		file: "access/slots.go",
		old:  `{"the tenant", s.byTenant[tenant], s.perTenant},`,
		new:  `{"the tenant", 0, s.perTenant},`,
	},
	{
		desc: "a transfer that is ended twice makes room for two", test: "TestTransferBounds",
		file: "access/slots.go",
		old: `	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		giveBack(s.byClaim, claimID)
		giveBack(s.byTenant, tenant)
	}), nil`,
		new: `	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		giveBack(s.byClaim, claimID)
		giveBack(s.byTenant, tenant)
		_ = sync.OnceFunc
	}, nil`,
	},
	{
		desc: "a part is of another file than it was chosen for", test: "TestPartOfChangingFile",
		file: "access/transfer.go",
		old:  `if info.Size == chosen.Size && info.Modified.Equal(chosen.Modified) {`,
		new:  `if info.Size >= 0 {`,
	},
	{
		desc: "a container holds a transfer as long as it wants", test: "TestStalledTransfers",
		file: "access/transfer.go",
		old:  `	d.stall.Reset(transferIdleLimit)`,
		new:  `	d.stall.Reset(maxTransferTime)`,
	},
	{
		desc: "a download that fails looks complete", test: "TestBrokenDownloads", pkg: "api",
		file: "api/download.go",
		old:  `	if err == nil && (length < 0 || n == length) {`,
		new:  `	if err == nil || length < 0 {`,
	},
	{
		desc: "an upload that ends early is complete", test: "TestIncompleteUploads",
		file: "api/upload.go",
		old:  `	if err == io.EOF {`,
		new: `	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	if err == io.EOF {`,
	},
	{
		desc: "a client that sends a byte at a time holds a transfer", test: "TestSlowUpload",
		file: "api/upload.go",
		old: `	u.left -= time.Since(begin)
`,
	},
	{
		desc: "a path of files may be redirected", test: "TestFilePathTricks",
		file: "api/files.go",
		old:  `trimmed != path.Clean(trimmed) {`,
		new:  `trimmed == "" {`,
	},
	{
		desc: "the body of another route has no bound", test: "TestFilePathTricks",
		file: "api/files.go",
		old:  `return pattern == "PUT /v1/claims/{id}"+filePattern`,
		new:  `return pattern != "" && tenantPaths.MatchString(r.URL.Path)`,
	},
	{
		desc: "the access log has paths of files", test: "TestFilePathsAreNotLogged",
		file: "api/memory.go",
		old:  `(memory|files|ports`,
		new:  `(memory|ports`,
	},
	{
		desc: "one file of the far future hides a directory", test: "TestFilesOfTheFuture",
		file: "api/files.go",
		old:  `y < 0 || y > 9999 {`,
		new:  `y < 0 {`,
	},
	{
		desc: "a browser may run what a tenant has written", test: "TestFilesInPaths",
		file: "api/download.go",
		old: `	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
`,
	},
	{
		desc: "a file that was not sent whole is sent again", test: "TestFileChangesAreNotRetried",
		file: "client/files.go",
		old:  `content: content, noRetry: true,`,
		new:  `content: content,`,
	},
	{
		desc: "a program from an archive gets its owner's rights", test: "TestHostileArchives",
		file: "cmd/hostler/cp_get.go",
		old:  `root.Chmod(name, mode.Perm());`,
		new:  `root.Chmod(name, mode);`,
	},
	{
		desc: "a download that breaks replaces the file", test: "TestCopyBreaks",
		file: "cmd/hostler/cp_get.go",
		old: `	if err == nil {
		err = root.Rename(temporary, name)
	}`,
		new: `	if rename := root.Rename(temporary, name); err == nil {
		err = rename
	}`,
	},
	{
		desc: "a link in the destination leads out of it", test: "TestCopyOntoLink",
		file: "cmd/hostler/cp_get.go",
		old: `	if err := root.MkdirAll(name, 0o777); err != nil {
		return err
	}
	dir, err := root.OpenRoot(name)`,
		new: `	if err := os.MkdirAll(filepath.Join(root.Name(), name), 0o777); err != nil {
		return err
	}
	dir, err := os.OpenRoot(filepath.Join(root.Name(), name))`,
	},
}
