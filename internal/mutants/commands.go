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
		old: `		return x.Shell, x.Text, x.Process
`,
		new: `		return x.Shell, "", x.Process
`,
	},
	{
		desc: "the envelope is not sent", test: "TestCommandsAndScripts",
		file: "hooks/runner/command.go",
		old: `		Stdin:       a.Envelope,
`,
	},
}
