package main

// commands are mutations of how the program in a container runs commands and
// scripts.
var commands = []mutation{
	{
		desc: "a script can be changed while it runs", test: "TestScript",
		file: "cmd/hostler-shim/script.go",
		old:  `unix.F_SEAL_GROW | unix.F_SEAL_WRITE`,
		new:  `unix.F_SEAL_GROW`,
	},
	{
		desc: "a script can be truncated while it runs", test: "TestScript",
		file: "cmd/hostler-shim/script.go",
		old:  `unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK`,
		new:  `unix.F_SEAL_SEAL`,
	},
	{
		desc: "a command with input never reads its end", test: "TestInput",
		file: "cmd/hostler-shim/command_stdio.go",
		old: `	defer unix.Close(fds[1])
	if n,`,
		new: `	if n,`,
	},
	{
		desc: "the error for a missing shell does not name the image", test: "TestScriptWithoutShell",
		file: "cmd/hostler-shim/job.go",
		old: `		if l.script != nil {
			err =`,
		new: `		if l.script == nil {
			err =`,
	},
	{
		desc: "any error of a start is a missing shell", test: "TestScriptWithoutShell",
		file: "cmd/hostler-shim/script.go",
		old:  `	if !ok || start.Reason != runtime.StartBinaryNotFound {`,
		new:  `	if !ok {`,
	},
	{
		desc: "a script of any length is sent", test: "TestInvalidCommandIsNotSent",
		file: "runtime/shim/run.go",
		old:  `	case len(r.Script) > runtime.MaxScript:`,
		new:  `	case len(r.Script) > 2*runtime.MaxScript:`,
	},
	{
		desc: "a script with NUL is sent", test: "TestInvalidCommandIsNotSent",
		file: "runtime/shim/run.go",
		old:  `	case bytes.IndexByte(r.Script, 0) >= 0:`,
		new:  `	case bytes.IndexByte(r.Script, 0) > len(r.Script):`,
	},
	{
		desc: "an end accepts invalid commands", test: "TestProtocolLimits",
		file: "runtime/shim/exchange.go",
		old:  `	if r.Run != nil && r.Run.Invalid() != "" {`,
		new:  `	if r.Run != nil && r.Run.Invalid() == "-" {`,
	},
	{
		desc: "an older program receives what it would ignore", test: "TestCommandNeedsFeature",
		file: "runtime/shim/run.go",
		old:  `		if n.isUsed && !c.Has(n.feature) {`,
		new:  `		if n.isUsed && !c.Has(n.feature) && n.feature == "" {`,
	},
	{
		desc: "the text of a script is not sent", test: "TestCommandsAndScripts",
		file: "hooks/runner/command.go",
		old: `		return program{args: x.Shell, script: x.Text, Process: x.Process}
`,
		new: `		return program{args: x.Shell, Process: x.Process}
`,
	},
	{
		desc: "the envelope is not sent", test: "TestCommandsAndScripts",
		file: "hooks/runner/command.go",
		old: `		Stdin:       a.Envelope,
`,
	},
	{
		desc: "a limit of the shim can be raised by the command", test: "TestRlimits",
		file: "cmd/hostler-shim/rlimit.go",
		old:  `Max: min(l.hard, now.Max)}`,
		new:  `Max: now.Max}`,
	},
	{
		desc: "CPU time is rounded down", test: "TestRlimits",
		file: "cmd/hostler-shim/rlimit.go",
		old:  `(l.CPUTime + time.Second - 1) / time.Second`,
		new:  `(l.CPUTime + time.Second/4) / time.Second`,
	},
	{
		desc: "a command has no limit of memory", test: "TestRlimits",
		file: "cmd/hostler-shim/rlimit.go",
		old:  `	if l.Memory > 0 {`,
		new:  `	if l.Memory < 0 {`,
	},
	{
		desc: "a command has no limit of file sizes", test: "TestRlimits",
		file: "cmd/hostler-shim/rlimit.go",
		old:  `	if l.FileSize > 0 {`,
		new:  `	if l.FileSize < 0 {`,
	},
	{
		desc: "a limited command may leave a core file", test: "TestRlimits",
		file: "cmd/hostler-shim/rlimit.go",
		old:  `	if len(all) > 0 {`,
		new:  `	if len(all) > 9 {`,
	},
	{
		desc: "a command starts without its limits", test: "TestRlimits",
		file: "cmd/hostler-shim/launch.go",
		old:  `		if len(rlimits(l.limits)) > 0 {`,
		new:  `		if len(rlimits(l.limits)) > 9 {`,
	},
	{
		desc: "a limited script has no text", test: "TestRlimits",
		file: "cmd/hostler-shim/start_helper.go",
		old:  `		Files: l.descriptors(theirs),`,
		new:  `		Files: launch{files: l.files}.descriptors(theirs),`,
	},
	{
		desc: "a limited command that cannot be started leaves a zombie", test: "TestLimitedStartFails",
		file: "cmd/hostler-shim/job.go",
		old: `		reapFailed()
`,
	},
	{
		desc: "a command without a grace period is asked to exit", test: "TestNoGrace",
		file: "cmd/hostler-shim/job.go",
		old: `	if j.currentGrace() > 0 {
		j.terminate()
	}
`,
		new: `	j.terminate()
`,
	},
	{
		desc: "the limit of output is not checked", test: "TestExplain",
		file: "cmd/hostler-shim/job_end.go",
		old:  `	case j.output.isExceeded():`,
		new:  `	case j.output.isExceeded() && limits.Output > 0:`,
	},
	{
		desc: "the limit of output is one byte less", test: "TestExplain",
		file: "cmd/hostler-shim/output_limit.go",
		old:  `o.total.Load() > o.max }`,
		new:  `o.total.Load() >= o.max }`,
	},
	{
		desc: "endless output is not ended", test: "TestExplain",
		file: "cmd/hostler-shim/output_limit.go",
		old:  `		o.once.Do(func() { close(o.exceeded) })`,
		new:  `		o.once.Do(func() {})`,
	},
	{
		desc: "any process of the container that was killed is the command's", test: "TestExplain",
		file: "cmd/hostler-shim/job_end.go",
		old:  `	case j.sawSIGKILL && outOfMemory():`,
		new:  `	case outOfMemory():`,
	},
	{
		desc: "any SIGKILL is because of memory", test: "TestExplain",
		file: "cmd/hostler-shim/job_end.go",
		old:  `	case j.sawSIGKILL && outOfMemory():`,
		new:  `	case j.sawSIGKILL:`,
	},
	{
		desc: "exit code 137 of any process is a SIGKILL", test: "TestIsSIGKILL",
		file: "cmd/hostler-shim/job_end.go",
		old:  `		leader && status.Exited()`,
		new:  `		status.Exited()`,
	},
	{
		desc: "a tenant's file is the counter of the kernel", test: "TestOOMCounter",
		file: "cmd/hostler-shim/oom.go",
		old:  ` && int64(st.Type) == filesystem {`,
		new:  ` && filesystem > 0 {`,
	},
	{
		desc: "a default grace period replaces none", test: "TestGraceIsSent",
		file: "runtime/shim/exec.go",
		old:  `	if cmd.Grace != nil {`,
		new:  `	if cmd.Grace != nil && *cmd.Grace > 0 {`,
	},
	{
		desc: "negative limits are sent", test: "TestInvalidCommandIsNotSent",
		file: "runtime/shim/run.go",
		old:  `r.Limits.FileSize, r.Limits.Output) < 0:`,
		new:  `r.Limits.FileSize, r.Limits.Output) < -1:`,
	},
	{
		desc: "limits are not sent", test: "TestCommandsAndScripts",
		file: "hooks/runner/command.go",
		old: `		Limits:      runtime.ProcessLimits(p.Limits),
`,
	},
	{
		desc: "the grace period is not sent", test: "TestCommandsAndScripts",
		file: "hooks/runner/command.go",
		old: `		Grace:       p.Grace,
`,
	},
	{
		desc: "a query has the default grace period", test: "TestGraceBoundsQueries",
		file: "hooks/runner/command.go",
		old:  `Timeout: a.Timeout, Grace: p.Grace}`,
		new:  `Timeout: a.Timeout}`,
	},
	{
		desc: "a success has an error because a process ran out of memory", test: "TestLimitsInResult",
		file: "hooks/runner/command.go",
		old:  `	case res.OOMKilled && !res.OK():`,
		new:  `	case res.OOMKilled:`,
	},
	{
		desc: "a command whose output exceeds the limit succeeds", test: "TestLimitsInResult", pkg: "hooks/runner",
		file: "runtime/exec.go",
		old:  ` && !r.TimedOut && r.Exceeded == ""`,
		new:  ` && !r.TimedOut`,
	},
	{
		desc: "the backend is not asked for the limits of event hooks", test: "TestCommandLimits",
		file: "workload/command_limits.go",
		old:  `	for _, h := range w.EventHooks {`,
		new:  `	for _, h := range w.EventHooks[:0] {`,
	},
	{
		desc: "the backend is not asked for the limits of commands", test: "TestApplyChecksRuntime",
		file: "workload/workload.go", pkg: "pool",
		old: `, CommandLimits: w.commandLimits(),`,
		new: `,`,
	},
	{
		desc: "a tenant can make a worker wait for a start helper", test: "TestStartHelperTimeout",
		file: "cmd/hostler-shim/start_helper.go",
		old:  `time.Now().Add(cmp.Or(l.startTimeout, startTimeout))`,
		new:  `time.Now().Add(cmp.Or(startTimeout, l.startTimeout))`,
	},
}
