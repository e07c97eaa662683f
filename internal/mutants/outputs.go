package main

// outputs are mutations of what is kept of containers that failed.
var outputs = []mutation{
	{
		desc: "what a tenant's program printed is in the reason", test: "TestOutputOfTenant",
		file: "pool/output.go",
		old:  ` || c.Tenant != "" {`,
		new:  ` {`,
	},
	{
		desc: "an output that could not be read is not read again", test: "TestOutputOfFailedCreation",
		file: "pool/provisioner.go",
		old:  `return c.Output == OutputWanted`,
		new:  `return false`,
	},
	{
		desc: "what a main process that exits has broken is the reason", test: "TestExitDuringCheck",
		file: "pool/provisioner.go",
		old:  `runtime.ErrContainerExited, runtime.ErrTainted, runtime.ErrUnresponsive}`,
		new:  `runtime.ErrContainerExited}`,
	},
	{
		desc: "an exit that the engine reports later is not the reason", test: "TestExitDuringCheck",
		file: "pool/provisioner.go",
		old:  `for err == nil && status.State == runtime.Running && flow.Sleep`,
		new:  `for err != nil && flow.Sleep`,
	},
	{
		desc: "a worker that outlives init prints into the log of the main process", test: "TestWorkerAfterInit",
		file: "cmd/hostler-shim/worker.go",
		old:  `!errors.Is(err, unix.EPIPE)`,
		new:  `err != unix.EPIPE`,
	},
	{
		desc: "secrets of hooks are kept", test: "TestOutputOfFailedCheck",
		file: "pool/output.go",
		old:  `return r.redact(text)`,
		new:  `return text`,
	},
	{
		desc: "the reason of a failure is replaced by that of the removal", test: "TestOutputOfTenant",
		file: "pool/transition.go",
		old:  `(c.Health == Exited || c.Health == Unhealthy)`,
		new:  `false`,
	},
	{
		desc: "control characters are in the reason", test: "TestOutputOfDeadContainer",
		file: "pool/output.go",
		old: `			return ' '
`,
		new: `			return c
`,
	},
	{
		desc: "all exits wait for one output", test: "TestHungLogsDelayNoExit",
		file: "pool/watcher.go",
		old:  `const parallelExits = 16`,
		new:  `const parallelExits = 1`,
	},
	{
		desc: "the output of another tenant is kept", test: "TestSQLite",
		file: "store/containeroutputs.go",
		old:  `if o.Tenant != c.Tenant {`,
		new:  `if false {`,
	},
	{
		desc: "viewers and tenants read the output of containers in events", test: "TestLogReaders",
		file: "api/redact.go",
		old:  `eventLogs[e.Type], v.logs`,
		new:  `eventLogs[e.Type], v.output`,
	},
	{
		desc: "the cause of an error is a sentinel without its detail", test: "TestOf",
		file: "internal/rootcause/rootcause.go",
		old:  `if !isSuffix || doing`,
		new:  `if doing`,
	},
	{
		desc: "tables are cut everywhere", test: "TestTablesAreWhole",
		file: "cmd/hostler/print.go",
		old: `	if isTerminal(w) {
		return shortened(line)
	}
	return line`,
		new: `	return shortened(line)`,
	},
}
