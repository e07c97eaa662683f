package main

import "slices"

// shims are mutations of cmd/hostler-shim and runtime/shim.
var shims = slices.Concat(stateFields, shimFiles, shimReuse, shimTrees, channels, frames, dockers, commands)

// stateFields each omit one field of a file's state.
var stateFields = []mutation{
	field("mode", `uint64(f.mode)<<32 | uint64(f.links)`, `uint64(f.links)`),
	field("number of links", `uint64(f.mode)<<32 | uint64(f.links)`, `uint64(f.mode) << 32`),
	field("uid", `uint64(f.uid)<<32 | uint64(f.gid)`, `uint64(f.gid)`),
	field("gid", `uint64(f.uid)<<32 | uint64(f.gid)`, `uint64(f.uid) << 32`),
	field("size", `f.size, f.inode, f.filesystem`, `f.inode, f.filesystem`),
	field("inode", `f.size, f.inode, f.filesystem`, `f.size, f.filesystem`),
	field("filesystem", `f.inode, f.filesystem, f.device`, `f.inode, f.device`),
	field("device", `f.filesystem, f.device, f.flags`, `f.filesystem, f.flags`),
	field("flags", `f.device, f.flags,`, `f.device,`),
	field("last change, in seconds,", `uint64(f.ctime.Sec), `, ``),
	field("last modification, in seconds,", `uint64(f.mtime.Sec), `, ``),
	field("birth, in seconds,", `, uint64(f.btime.Sec),`, `,`),
	field("last change, in nanoseconds,", `uint64(f.ctime.Nsec)<<32 | uint64(f.mtime.Nsec)`, `uint64(f.mtime.Nsec)`),
	field("last modification, in nanoseconds,", `uint64(f.ctime.Nsec)<<32 | uint64(f.mtime.Nsec)`, `uint64(f.ctime.Nsec) << 32`),
	field("birth, in nanoseconds,", `, uint64(f.btime.Nsec),`, `,`),
}

func field(name, old, replacement string) mutation {
	return mutation{desc: "the " + name + " of a file is not compared", test: "TestFingerprint", file: "cmd/hostler-shim/filestate.go", old: old, new: replacement}
}

// shimFiles are mutations of cmd/hostler-shim.
var shimFiles = []mutation{
	{
		desc: "the additional facts of a file are not compared", test: "TestFingerprint",
		file: "cmd/hostler-shim/filestate.go",
		old: `	buf = append(buf, details...)
`,
	},
	{
		desc: "a program that may not change its group takes its own user", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old: ` && have.effective&(1<<unix.CAP_SETGID) != 0
`,
		new: `
`,
	},
	{
		desc: "the shim keeps the groups that it was started with", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old:  `		if err := syscall.Setgroups(nil); err != nil {`,
		new:  `		if err := syscall.Setgroups([]int{7}); err != nil {`,
	},
	{
		desc: "the shim keeps the group that it was started with", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old:  `syscall.Setresgid(shim.UID, shim.UID, shim.UID)`,
		new:  `syscall.Setresgid(shim.UID, shim.UID, 0)`,
	},
	{
		desc: "the shim can become root again without a capability", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old:  `syscall.Setresuid(shim.UID, shim.UID, shim.UID)`,
		new:  `syscall.Setresuid(shim.UID, shim.UID, 0)`,
	},
	{
		desc: "workers pass on their capabilities", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old:  `	if h == inheritAllCaps {`,
		new:  `	if h != inheritAllCaps || true {`,
	},
	{
		desc: "init's own programs get no capabilities", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old:  `	if h == inheritAllCaps {`,
		new:  `	if h == inheritAllCaps && false {`,
	},
	{
		desc: "a program that cannot change its user can be inspected", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old: `		disableDump()
		return nil
`,
		new: `		return nil
`,
	},
	{
		desc: "the shim's files in /proc stay root's", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old: `	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
`,
		new: `	return nil
`,
	},
	{
		desc: "an empty user is the shim's own", test: "TestSwitchToShimUser",
		file: "cmd/hostler-shim/shim_user.go",
		old: `	if os.Geteuid() == shim.UID {
		return 0, 0
	}
`,
	},
	{
		desc: "a started program has the socket to init", test: "TestStartByHelper",
		file: "cmd/hostler-shim/start_helper.go",
		old: `	unix.CloseOnExec(workerSocket)
`,
	},
	{
		desc: "a program is started as the shim's user", test: "TestStartByHelper",
		file: "cmd/hostler-shim/start_helper.go",
		old: `	if err := setThreadIdentity(identity{uid: s.UID, gid: s.GID, groups: s.Groups}); err != nil {
		return err
	}
`,
		new: `	goruntime.KeepAlive(setThreadIdentity)
`,
	},
	{
		desc: "a program is started without its groups", test: "TestStartByHelper",
		file: "cmd/hostler-shim/start_helper.go",
		old:  `identity{uid: s.UID, gid: s.GID, groups: s.Groups}`,
		new:  `identity{uid: s.UID, gid: s.GID}`,
	},
	{
		desc: "a program is started in init's directory", test: "TestStartByHelper",
		file: "cmd/hostler-shim/start_helper.go",
		old: `	if err := unix.Chdir(s.Dir); err != nil {
		return workdirError(s.Dir, err)
	}
`,
	},
	{
		desc: "a program that could not be started counts as one that runs", test: "TestStartByHelperFails",
		file: "cmd/hostler-shim/start_helper.go",
		old: `	return wireErr.Err()
`,
		new: `	return nil
`,
	},
	{
		desc: "a program that wants a session of its own gets a group", test: "TestStartByHelper",
		file: "cmd/hostler-shim/launch.go",
		old:  `Setpgid: !l.session, Setsid: l.session, Setctty`,
		new:  `Setpgid: true, Setctty`,
	},
	{
		desc: "leases of flow labels are not compared", test: "TestLeasedFlowLabelIsFound",
		file: "cmd/hostler-shim/facts.go",
		old: `	f["the flow labels"] = labels
`,
		new: `	f["the flow labels"] = labels[:0]
`,
	},
	{
		desc: "a partly written fence prevents the next one", test: "TestFenceHalfWritten",
		file: "cmd/hostler-shim/fence.go",
		old: `	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
`,
	},
	{
		desc: "hard limits are not compared", test: "TestLimitFacts",
		file: "cmd/hostler-shim/facts.go",
		old:  `fmt.Sprintf("%d %d", limit.Cur, limit.Max)`,
		new:  `fmt.Sprintf("%d", limit.Cur)`,
	},
	{
		desc: "the last resource limit is not compared", test: "TestLimitFacts",
		file: "cmd/hostler-shim/facts.go",
		old: `const resourceLimits = 16
`,
		new: `const resourceLimits = 15
`,
	},
	{
		desc: "the inherited process state is not compared", test: "TestProcessFacts",
		file: "cmd/hostler-shim/facts.go",
		old:  `		if slices.Contains(statusFields, name) {`,
		new:  `		if slices.Contains(statusFields, name) && name == "" {`,
	},
	{
		desc: "only the first thread's priority is compared", test: "TestSchedulingFactsOfAllThreads",
		file: "cmd/hostler-shim/facts.go",
		old: `		seen[text] = true
`,
		new: `		if len(seen) == 0 {
			seen[text] = true
		}
`,
	},
	{
		desc: "a new fact is not detected", test: "TestFactsCompare",
		file: "cmd/hostler-shim/facts.go",
		old: `	maps.Copy(all, now)
`,
	},
	{
		desc: "the owners of the network files in /proc are not compared", test: "TestMachineFacts",
		file: "cmd/hostler-shim/facts.go",
		old:  `"%s %o %d %d\n", path, st.Mode, st.Uid, st.Gid)`,
		new:  `"%s %o\n", path, st.Mode)`,
	},
	{
		desc: "an older server is not rejected", test: "TestFenceRefusesSmaller",
		file: "cmd/hostler-shim/fence.go",
		old:  `	case number < f.current ||`,
		new:  `	case number < f.current-1 ||`,
	},
	{
		desc: "a fence counts before it is on disk", test: "TestFencePersistedBeforeUse",
		file: "cmd/hostler-shim/fence.go",
		old: `	if f.path != "" {
		if err`,
		new: `	f.current = number
	if f.path != "" {
		if err`,
	},
	{
		desc: "an unreadable fence counts as none", test: "TestFenceUnreadable",
		file: "cmd/hostler-shim/fence.go",
		old: `	if err != nil {
		return f, fmt.Errorf("read the fence: %w", err)
	}
	return f, nil
}

// admit`,
		new: `	if err != nil {
		return f, nil
	}
	return f, nil
}

// admit`,
	},
	{
		desc: "a fence does not survive init", test: "TestFenceRefusesSmaller",
		file: "cmd/hostler-shim/fence.go",
		old: `	if f.path != "" {
		if err`,
		new: `	if f.path == "none" {
		if err`,
	},
	{
		desc: "the result of the probe is dropped", test: "TestBaselineNeedsReliableCtime",
		file: "cmd/hostler-shim/baseline.go",
		old: `	probeErr := s.probeTimestamps()
`,
		new: `	probeErr := s.probeTimestamps()
	probeErr = nil
`,
	},
	{
		desc: "a wipe does not compare the facts", test: "TestWipeAndCompare",
		file: "cmd/hostler-shim/wipe.go",
		old: `	if err := s.baseline.facts.compare(now); err != nil {
		return err
	}
`,
		new: `	_ = now
`,
	},
	{
		desc: "a wipe does not compare the files", test: "TestWipeAndCompare",
		file: "cmd/hostler-shim/wipe.go",
		old: `	if err := s.baseline.files.compare(trees); err != nil {
`,
		new: `	if len(trees) < 0 {
`,
	},
	{
		desc: "a wipe empties nothing", test: "TestWipeAndCompare",
		file: "cmd/hostler-shim/wipe.go",
		old: `		if err := p.wipe(deadline); err != nil {
			return err
		}
`,
		new: `		_, _ = p, deadline
`,
	},
	{
		desc: "a wipe drops the reason why files could not be compared", test: "TestBaselineNeedsReliableCtime",
		file: "cmd/hostler-shim/wipe.go",
		old: `	if s.baseline.files.err != nil {
		return s.baseline.files.err
	}
`,
	},
	{
		desc: "a container without a baseline counts as clean", test: "TestWipeWithoutBaseline",
		file: "cmd/hostler-shim/wipe.go",
		old: `	if s.baseline == nil {
		return fmt.Errorf("%w: it has no baseline", runtime.ErrWipeUnverified)
	}
`,
		new: `	if s.baseline == nil {
		return nil
	}
`,
	},
	{
		desc: "a missing file is not detected", test: "TestScanCompareMissing",
		file: "cmd/hostler-shim/rootfs_scan.go",
		old: `	case count != len(c.fingerprints):
		return fmt.Errorf("%w: a file of the image is missing", runtime.ErrWipeUnverified)
	}
`,
		new: `	}
`,
	},
	{
		desc: "a scan reads one file too many", test: "TestScanTooLarge",
		file: "cmd/hostler-shim/rootfs_scan.go",
		old:  `	if w.filesLeft--; w.filesLeft < 0 {`,
		new:  `	if w.filesLeft--; w.filesLeft < -1 {`,
	},
	{
		desc: "bytes that are being written are free to be sent again", test: "TestWriteTo",
		file: "runtime/shim/stream.go",
		old:  "\t\ts.dropFirst()\n\t\ts.mu.Unlock()\n",
		new:  "\t\ts.dropFirst()\n\t\ts.recvWindow += len(first.unread)\n\t\ts.mu.Unlock()\n",
	},
	{
		desc: "a stream that was reset keeps its buffers", test: "TestWriteToFails",
		file: "runtime/shim/stream_buffer.go",
		old:  ` && !s.isDone {`,
		new:  ` {`,
	},
}
