package main

// dockers are mutations of package runtime/docker, and of logs in all backends.
var dockers = []mutation{
	{
		desc: "a container is started with a FIFO in the place of an account file", test: "TestStartChecksAccountFiles",
		file: "runtime/docker/account_files.go",
		old:  `		case last && !stat.Mode.IsRegular():`,
		new:  `		case last && stat.Mode.IsDir():`,
	},
	{
		desc: "a path that leads through a volume is trusted", test: "TestStartChecksAccountFiles",
		file: "runtime/docker/account_files.go",
		old:  `	return path.Dir(at) != "/" && slices`,
		new:  `	return path.Dir(at) == "" && slices`,
	},
	{
		desc: "a running container is started again", test: "TestStartLeavesRunningContainer",
		file: "runtime/docker/lifecycle.go",
		old:  `	if !c.State.Running || c.State.Paused {`,
		new:  `	if c.ID != "" {`,
	},
	{
		desc: "the engine may take any time to start a container", test: "TestStartIsBounded",
		file: "runtime/docker/lifecycle.go",
		old:  `context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "the engine may take any time to describe a container", test: "TestLockedContainerBlocksNothing",
		file: "runtime/docker/labels.go",
		old:  `context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "a container that the engine does not describe holds up all events", test: "TestLockedContainerBlocksNothing",
		file: "runtime/docker/watch.go",
		old:  `context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)`,
		new:  `context.WithCancel(ctx)`,
	},
	{
		desc: "the log of a wiped container is cut by time alone", test: "TestLogsBeginAfterWipe",
		file: "runtime/shim/backend/log.go",
		old:  `AfterLastWipe(shim.DeriveKey(c.options.Secret, id), text); ok {`,
		new:  `AfterLastWipe(shim.DeriveKey(c.options.Secret, id), text); ok && len(rest) > len(text) {`,
	},
	{
		desc: "an exited container is restarted without a fence", test: "TestRestart",
		file: "runtime/shim/backend/backend.go",
		old:  `session.StartMainWith(ctx, fence, environment)`,
		new:  `session.StartMainWith(ctx, shim.NoFence, environment)`,
	},
	{
		desc: "the files of an exited container cannot be read", test: "TestStop",
		file: "runtime/shim/backend/backend.go",
		old:  `	return c.options.Resume(ctx, id, stop)`,
		new:  `	return err`,
	},
	{
		desc: "a stop runs the main process of a container that was never started", test: "TestStop",
		file: "runtime/shim/backend/backend.go",
		old:  `	case status.State == runtime.Created:`,
		new:  `	case status.State == "none":`,
	},
	{
		desc: "a container whose start is delayed counts as never started", test: "TestStateOf",
		file: "runtime/kubernetes/status.go",
		old:  `	case c.State.Waiting != nil && ended != nil:`,
		new:  `	case c.State.Waiting != nil && c.State.Running != nil:`,
	},
	{
		desc: "an exit on a node that has lost its records does not count", test: "TestStateOf",
		file: "runtime/kubernetes/status.go",
		old:  `return l.exits != l.restarted }`,
		new:  `return l.exits > l.restarted }`,
	},
	{
		desc: "a start is recorded although the container has exited since", test: "TestRestartRecordsEarlierStart",
		file: "runtime/kubernetes/lifecycle.go",
		old:  `history.hasExited() && history.exits == exits {`,
		new:  `history.hasExited() {`,
	},
	{
		desc: "files are written to a volume where it is read-only", test: "TestWritablePath",
		file: "runtime/shim/backend/files.go",
		old:  `ok && mnt.ReadOnly {`,
		new:  `ok && !mnt.ReadOnly {`,
	},
	{
		desc: "the restart of a container whose exit the API server does not report is not recorded", test: "TestRestartAwaitsReportedExit",
		file: "runtime/kubernetes/lifecycle.go",
		old:  `	if stateOf(pod) != runtime.Exited && isNew {`,
		new:  `	if stateOf(pod) != runtime.Exited || isNew {`,
	},
	{
		desc: "a line that a tenant prints is accepted as the mark of a wipe", test: "TestAfterLastWipe",
		file: "runtime/shim/wipe_log.go",
		old:  `		if isLogMark(key, mark) {`,
		new:  `		if isLogMark(key, mark) || len(mark) > 0 {`,
	},
	{
		desc: "a log is cut at the first wipe in it", test: "TestAfterLastWipe",
		file: "runtime/shim/wipe_log.go",
		old:  `bytes.LastIndex(log[:end], prefix)`,
		new:  `bytes.Index(log[:end], prefix)`,
	},
	{
		desc: "a restart that was not recorded is never recorded", test: "TestRestartRecordsEarlierStart",
		file: "runtime/kubernetes/session.go",
		old: `		r.unrecorded.Store(id, history.exits)
`,
		new: `		_ = id
`,
	},
}
