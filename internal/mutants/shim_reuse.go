package main

// shimReuse are mutations of what separates the users and the tenants of one
// container, without the comparison of files and facts.
var shimReuse = []mutation{
	{
		desc: "a bridge that was started next to a tenant survives a wipe", test: "TestWipeEndsUntrustedBridges",
		file: "cmd/hostler-shim/session_trust.go",
		old:  `trusted: all.protected && all.isQuiet}`,
		new:  `trusted: all.protected}`,
	},
	{
		desc: "a bridge with the tenant's user survives a wipe", test: "TestWipeEndsUntrustedBridges",
		file: "cmd/hostler-shim/session_trust.go",
		old:  `trusted: all.protected && all.isQuiet}`,
		new:  `trusted: all.isQuiet}`,
	},
	{
		desc: "a bridge that a wipe ends is not killed", test: "TestWipeEndsUntrustedBridges",
		file: "cmd/hostler-shim/session_trust.go",
		old:  `		if !state.ended {`,
		new:  `		if !state.ended || state.bridge.PID > 0 {`,
	},
	{
		desc: "the session of a bridge that a wipe ends stays open", test: "TestEndedSessionIsClosedAfterAnswer",
		file: "cmd/hostler-shim/session_trust.go",
		old:  `		_ = s.conn.Close() //`,
		new:  `		_ = s.conn.Close //`,
	},
	{
		desc: "a wipe does not touch the shim's directory that tenants can write to", test: "TestTenantRunDirIsReset",
		file: "cmd/hostler-shim/wipe.go",
		old:  `	if d := s.baseline.runDir; d != nil {`,
		new:  `	if d := s.baseline.runDir; d != nil && d.files == nil {`,
	},
	{
		desc: "init's files are not written again by a wipe", test: "TestTenantRunDirIsReset",
		file: "cmd/hostler-shim/run_dir.go",
		old:  `	for _, name := range d.files {`,
		new:  `	for _, name := range d.files[:0] {`,
	},
	{
		desc: "the times of the shim's directory are not restored", test: "TestTenantRunDirIsReset",
		file: "cmd/hostler-shim/run_dir.go",
		old:  `	return d.target.dir.restoreTimes(fd)`,
		new:  `	return nil`,
	},
	{
		desc: "an older flow starts the main process of an exited container", test: "TestWaitingMainIsStartedByItsRequestAlone",
		file: "cmd/hostler-shim/change_ops.go",
		old:  `	if err := s.admitChange(r.Fence); err != nil {`,
		new:  `	if err := s.admitChange(r.Fence); err != nil && r.Op != shim.OpStartMain {`,
	},
	{
		desc: "a request of no flow starts the main process", test: "TestRepeatedStartMain",
		file: "cmd/hostler-shim/fence.go",
		old:  ` || number <= shim.NoFence:`,
		new:  `:`,
	},
	{
		desc: "a repeated request to start ends what the first one has started", test: "TestRepeatedStartMain",
		file: "cmd/hostler-shim/wait_start.go",
		old:  ` || s.mainFence == fence) {`,
		new:  `) {`,
	},
	{
		desc: "a start leaves what an earlier flow has started", test: "TestStartMainEndsWhatEarlierFlowStarted",
		file: "cmd/hostler-shim/wait_start.go",
		old:  `	if isSame && (s.mainFence == shim.NoFence || s.mainFence == fence) {`,
		new:  `	if isSame && fence > shim.NoFence {`,
	},
	{
		desc: "it is not remembered which flow has started the main process", test: "TestStartMainEndsWhatEarlierFlowStarted",
		file: "cmd/hostler-shim/change_ops.go",
		old:  `	s.hasExited, s.mainFence = false, s.fence.current`,
		new:  `	s.hasExited = false`,
	},
	{
		desc: "a container that its engine starts again runs its main process for anyone", test: "TestInitWithFenceWaitsForStart",
		file: "cmd/hostler-shim/supervisor.go",
		old:  ` || s.fence.current > shim.NoFence {`,
		new:  ` {`,
	},
	{
		desc: "a container that an older flow has started again stays so", test: "TestInitWithFenceWaitsForStart",
		file: "cmd/hostler-shim/change_ops.go",
		old: `		s.limitStartWait(refusedStartWait)
`,
	},
	{
		desc: "a refused request ends the wait of the responsible flow", test: "TestRefusedRequestEndsNoWaitOfResponsibleFlow",
		file: "cmd/hostler-shim/change_ops.go",
		old: `	s.limitStartWait(maxStartWait)
`,
	},
	{
		desc: "a refused request changes the exit code", test: "TestInitWithFenceWaitsForStart",
		file: "cmd/hostler-shim/wait_start.go",
		old:  `s.exit(s.recordedExitCode())`,
		new:  `s.exit(exitFailed)`,
	},
	{
		desc: "an init that is killed leaves the exit code of an earlier one", test: "TestRecordedExitCode",
		file: "cmd/hostler-shim/main_process.go",
		old:  `os.Remove(s.config.ExitFile); err != nil`,
		new:  `error(nil); err != nil`,
	},
	{
		desc: "every change starts the main process of an exited container, unrecorded", test: "TestWaitingMainIsStartedByItsRequestAlone",
		file: "cmd/hostler-shim/change_ops.go",
		old:  `	if s.hasExited && r.Op != shim.OpStartMain && r.Op != shim.OpStop {`,
		new:  `	if s.hasExited && r.Op == "" {`,
	},
	{
		desc: "the files of an exited container whose main process cannot be started are lost", test: "TestInitWithFenceWaitsForStart",
		file: "cmd/hostler-shim/change_ops.go",
		old:  `r.Op != shim.OpStartMain && r.Op != shim.OpStop {`,
		new:  `r.Op != shim.OpStartMain {`,
	},
	{
		desc: "init exits although its engine would start it again", test: "TestWaitingInitMayExit",
		file: "cmd/hostler-shim/wait_start.go",
		old:  `return s.waitsForStart && s.config.StartedMarker == "" }`,
		new:  `return s.waitsForStart }`,
	},
	{
		desc: "a command of an older flow runs", test: "TestCommandsAndCopiesOfOlderFlow",
		file: "cmd/hostler-shim/fence.go",
		old:  `		if number < current {`,
		new:  `		if number < current-1 {`,
	},
	{
		desc: "the fence of a change counts for other changes only", test: "TestCommandsAndCopiesOfOlderFlow",
		file: "cmd/hostler-shim/fence.go",
		old:  `	return s.admit(number) //`,
		new:  `	return nil //`,
	},
	{
		desc: "a change of an older flow than that of a command is made", test: "TestEarlierFlowAfterCommandOrCopyOfLater",
		file: "cmd/hostler-shim/fence.go",
		old:  `	return s.admit(number) //`,
		new: `	_ = s.admit(number)
	return nil //`,
	},
	{
		desc: "commands and copies do not raise the fence", test: "TestEarlierFlowAfterCommandOrCopyOfLater",
		file: "cmd/hostler-shim/fence.go",
		old:  `		if s.admitted.CompareAndSwap(current, number) {`,
		new:  `		if current >= shim.NoFence {`,
	},
	{
		desc: "a full disk prevents the stop of a container", test: "TestFenceWithoutSpaceForAnotherFile",
		file: "cmd/hostler-shim/fence.go",
		old:  `	if openErr != nil {`,
		new:  `	if openErr == nil {`,
	},
	{
		desc: "the fence does not count for commands after a start by the engine", test: "TestInitWithFenceWaitsForStart",
		file: "cmd/hostler-shim/supervisor.go",
		old: `	s.admitted.Store(s.fence.current)
`,
	},
	{
		desc: "a copy of an older flow is unpacked", test: "TestCommandsAndCopiesOfOlderFlow",
		file: "cmd/hostler-shim/transfer.go",
		old: `	if err := s.admit(r.Fence); err != nil {
		return nil, err
	}
`,
	},
	{
		desc: "a command that was admitted just before a change runs after it", test: "TestCommandAdmittedBeforeChange",
		file: "cmd/hostler-shim/execute.go",
		old:  `	if s.admit(fence) != nil {`,
		new:  `	if fence < 0 {`,
	},
	{
		desc: "a hook carries no fence", test: "TestHooksAndCopiesCarryFence", pkg: "claim",
		file: "hooks/runner/variables.go",
		old:  `	a.Fence, a.Source = s.Fence, s.Source`,
		new:  `	a.Source = s.Source`,
	},
	{
		desc: "a container that was told to stop is clean", test: "TestWipeAndCompare",
		file: "cmd/hostler-shim/wipe.go",
		old:  `	return s.halt.err() //`,
		new:  `	return nil //`,
	},
	{
		desc: "a container that was told to stop is started again", test: "TestHaltedContainerIsNotRestarted",
		file: "cmd/hostler-shim/change_ops.go",
		old: `	if err := s.halt.err(); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrTainted, err)
	}
`,
	},
	{
		desc: "a worker runs the commands of several users", test: "TestUsersHaveOwnWorkers",
		file: "cmd/hostler-shim/execute.go",
		old:  `s.workers.acquire(spec.User)`,
		new:  `s.workers.acquire("")`,
	},
	{
		desc: "an idle worker is used for another user", test: "TestWorkersOfUsers",
		file: "cmd/hostler-shim/worker_pool.go",
		old: `	i := slices.IndexFunc(w.idle, func(p *workerProcess) bool { return p.user == user })
`,
		new: `	i := slices.IndexFunc(w.idle, func(p *workerProcess) bool { return len(user) > 0 })
`,
	},
	{
		desc: "idle workers are kept without a limit", test: "TestWorkersOfUsers",
		file: "cmd/hostler-shim/worker_pool.go",
		old:  `	if same < 0 && len(w.idle) == maxIdleWorkers {`,
		new:  `	if same < 0 && len(w.idle) == maxIdleWorkers+9 {`,
	},
}
