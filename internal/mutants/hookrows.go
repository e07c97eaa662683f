package main

// hookRows are mutations of what docs/hook-rows.md says is kept, where the test of a
// row did not notice them, and of what old containers are told.
var hookRows = []mutation{
	{
		desc: "a server tries to speak to a container of too old a version again and again", test: "TestContainerWithoutRequests",
		file: "inside/keeper.go",
		old:  `runtime.ErrTooOld, runtime.ErrNewer,`,
		new:  `runtime.ErrNewer,`,
	},
	{
		desc: "a program in a container of an older version asks for a minute", test: "TestAskInOlderContainer",
		file: "cmd/hostler-shim/ask.go",
		old:  `	return shim.Refuse(runtime.ProblemUnsupported,`,
		new:  `	return shim.Refuse(runtime.ProblemUnavailable,`,
	},
	{
		desc: "what the standard library imports is not judged", test: "TestCheckLinkedFindsViolations",
		file: "internal/arch/linked.go",
		old:  `"list", "-deps",`,
		new:  `"list",`,
	},
	{
		desc: "an older server's container is announced although its shim may not listen", test: "TestCommandIsAnnounced",
		file: "runtime/shim/exec.go",
		old:  `request.Requests && c.version >= RequestsVersion`,
		new:  `request.Requests && c.version > 0`,
	},
	{
		desc: "waits take ten minutes by default", test: "TestInvalidRequests",
		file: "wait/wait.go",
		old:  `	DefaultMaxTimeout = 5 * time.Minute`,
		new:  `	DefaultMaxTimeout = 10 * time.Minute`,
	},
	{
		desc: "only one kind of wait is known", test: "TestInvalidRequests",
		file: "wait/request.go",
		old:  "`^[a-z][a-z0-9_-]{0,62}$`",
		new:  "`^(review|consensus)$`",
	},
	{
		desc: "hooks do not know how late a deadline was", test: "TestLateDeadline",
		file: "wait/hooks.go",
		old:  `milliseconds(w.duration()), milliseconds(w.Exceeded())`,
		new:  `milliseconds(w.duration()), "0"`,
	},
	{
		desc: "a number is described as text", test: "TestNames",
		file: "hooks/variables/names.go",
		old:  `{Name: "EXCEEDED_BY", Class: Trusted, Type: Number,`,
		new:  `{Name: "EXCEEDED_BY", Class: Trusted, Type: Text,`,
	},
	{
		desc: "a hook that timed out is logged as a success", test: "TestRunsAreLogged",
		file: "cmd/hostler/metrics_linux.go",
		old: `	if r.State != hooks.Succeeded {
		level, message`,
		new: `	if r.State == hooks.Failed {
		level, message`,
	},
	{
		desc: "the error of a hook is not logged", test: "TestRunsAreLogged",
		file: "cmd/hostler/metrics_linux.go",
		old: `		attrs = append(attrs, slog.String("error", r.Error))
`,
		new: ``,
	},
	{
		desc: "the output of a hook is not logged for debugging", test: "TestRunsAreCountedAndLogged",
		file: "cmd/hostler/metrics_linux.go",
		old:  `attrs = append(attrs, slog.String("output", text))`,
		new:  `_ = text`,
	},
	{
		desc: "the level of the log is ignored", test: "TestRunsAreLogged",
		file: "cmd/hostler/serve_linux.go",
		old:  `	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {`,
		new:  `	if c.logLevel != "" {`,
	},
	{
		desc: "validate passes a forbidden command in a script of CFN's form", test: "TestValidateCommands", pkg: "cmd/hostler",
		file: "workload/lint.go",
		old:  `f.Class == lint.Forbidden && h.form == textForm:`,
		new:  `f.Class == lint.Forbidden && h.form == listedForm:`,
	},
	{
		desc: "an activity is unknown", test: "TestActivityIsChecked",
		file: "publish/activity.go",
		old:  `"limits_exceeded", "stalled", "offline"}`,
		new:  `"limits_exceeded", "offline"}`,
	},
	{
		desc: "an event of a tenant's program supplies no summary", test: "TestPublishedVariables",
		file: "hooks/runner/event.go",
		old:  `	"TASK", "TASK_SUMMARY", "ASSISTANT_TEXT",`,
		new:  `	"TASK", "ASSISTANT_TEXT",`,
	},
	{
		desc: "the workspace of the file is ignored", test: "TestScriptsStartInWorkspace",
		file: "workload/workload.go",
		old: `	return w.Workspace
`,
		new: `	return ""
`,
	},
	{
		desc: "the volume of the state precedes the workspace of the file", test: "TestScriptsStartInWorkspace",
		file: "workload/workload.go",
		old:  `if w.Workspace == "" && i >= 0 {`,
		new:  `if i >= 0 {`,
	},
	{
		desc: "a script starts in the workspace although it has a workdir", test: "TestScriptsStartInWorkspace",
		file: "workload/build_hooks.go",
		old:  `cmp.Or(s.Workdir, dir)`,
		new:  `cmp.Or(dir, s.Workdir)`,
	},
	{
		desc: "a command without a user is not the container's", test: "TestCommandDefaults",
		file: "cmd/hostler-shim/execute.go",
		old: `		spec.User = s.config.User
`,
		new: `		_ = s.config.User
`,
	},
	{
		desc: "a command without a workdir starts in the container's root", test: "TestCommandDefaults",
		file: "cmd/hostler-shim/execute.go",
		old: `		spec.Workdir = s.config.Workdir
`,
		new: `		spec.Workdir = s.config.Root
`,
	},
	{
		desc: "the workdir of a command is one of the machine", test: "TestCommandDefaults",
		file: "cmd/hostler-shim/execute.go",
		old:  `filepath.Join(s.config.Root, spec.Workdir)`,
		new:  `filepath.Clean(spec.Workdir)`,
	},
	{
		desc: "a command names another main process", test: "TestCommandDefaults",
		file: "cmd/hostler-shim/execute.go",
		old:  `if name != shim.MainPIDEnv {`,
		new:  `if name != "" {`,
	},
	{
		desc: "a container that was wiped stops", test: "TestEveryStateChangeHasItsPhase",
		file: "hooks/runner/event.go",
		old:  `"container.wiped":      {"running", "running"}`,
		new:  `"container.wiped":      {"stopping", "running"}`,
	},
	{
		desc: "a failed release comes from the phase running", test: "TestEveryStateChangeHasItsPhase",
		file: "hooks/runner/event.go",
		old:  `"claim.release_failed": {"error", "stopping"}`,
		new:  `"claim.release_failed": {"error", "running"}`,
	},
	{
		desc: "a program that reads a value lists the keys", test: "TestAskNames",
		file: "cmd/hostler-shim/ask_memory.go",
		old:  `request: "memory.get"`,
		new:  `request: "memory.list"`,
	},
	{
		desc: "an event is published as an activity", test: "TestAskNames",
		file: "cmd/hostler-shim/ask_event.go",
		old:  `request: "event.publish"`,
		new:  `request: "activity"`,
	},
	{
		desc: "a program does not learn that there is no value", test: "TestAskForNoValue",
		file: "cmd/hostler-shim/ask_memory.go",
		old:  `"memory_not_found": askNotFound`,
		new:  `"memory_not_found": askFailed`,
	},
	{
		desc: "a hook of a wait cannot restore what it kept", test: "TestHooksOfWaitsKeepContext",
		file: "cmd/hostler/inside_linux.go",
		old:  `inside.ForClaim(s.memory.Get), HooksMay: true},`,
		new:  `inside.ForClaim(s.memory.Get)},`,
	},
	{
		desc: "a command does not have the environment of the container", test: "TestCommandEnvironment",
		file: "cmd/hostler-shim/job.go",
		old:  `mergeEnv(os.Environ(), `,
		new:  `mergeEnv(nil, `,
	},
	{
		desc: "a command starts in the root", test: "TestCommandEnvironment",
		file: "cmd/hostler-shim/job.go",
		old:  `dir: j.spec.Workdir, limits`,
		new:  `dir: "/", limits`,
	},
}
