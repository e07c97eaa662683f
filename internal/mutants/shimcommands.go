package main

// shimCommands are mutations of the commands of tenants, with streams.
var shimCommands = []mutation{
	{
		desc: "a command of a claim that has ended starts", test: "TestOpenCommand",
		file: "cmd/hostler-shim/commands.go",
		old:  `s.admit(r.Fence); err != nil {`,
		new:  `s.admit(r.Fence); err != nil && r.Run == nil {`,
	},
	{
		desc: "EndCommands lets commands of its claim start", test: "TestOpenCommand",
		file: "cmd/hostler-shim/commands.go",
		old:  `s.admit(fence); err != nil {`,
		new:  `s.admit(shim.NoFence); err != nil {`,
	},
	{
		desc: "a command of another claim is found by its ID", test: "TestOpenCommand",
		file: "cmd/hostler-shim/commands.go",
		old:  `return c.key == key })`,
		new:  `return c.key.id == key.id })`,
	},
	{
		desc: "a command starts while every process is being killed", test: "TestOpenCommand",
		file: "cmd/hostler-shim/commands.go",
		old:  `	if s.closed {`,
		new:  `	if s.closed && r.Run == nil {`,
	},
	{
		desc: "a claim lists the commands of another one", test: "TestCommandLimits",
		file: "cmd/hostler-shim/commands.go",
		old:  `c.key.fence == fence && !c.internal`,
		new:  `!c.internal`,
	},
	{
		desc: "a tenant's commands leave no room for those of Hostler", test: "TestCommandLimits",
		file: "cmd/hostler-shim/commands.go",
		old:  `c.internal == internal && c.isRunning()`,
		new:  `c.isRunning()`,
	},
	{
		desc: "the next tenant finds the commands of the last one", test: "TestUncertainCommands",
		file: "cmd/hostler-shim/commands.go",
		old: `	s.all = nil
`,
		new: ``,
	},
	{
		desc: "a lost worker is forgotten", test: "TestUncertainCommands",
		file: "cmd/hostler-shim/commands.go",
		old:  `	s.lostErr = err`,
		new:  `	s.lostErr = nil`,
	},
	{
		desc: "the output of ended commands is not bounded", test: "TestEndedCommandsAreBounded",
		file: "cmd/hostler-shim/commands.go",
		old:  `		if size <= maxEndedOutput {`,
		new:  `		if size <= 2*maxEndedOutput {`,
	},
	{
		desc: "a command with a client loses its output first", test: "TestEndedCommandsAreBounded",
		file: "cmd/hostler-shim/commands.go",
		old:  `append(kept, attached...)`,
		new:  `append(attached, kept...)`,
	},
	{
		desc: "a command is forgotten while it has a client", test: "TestEndedCommandIsForgotten",
		file: "cmd/hostler-shim/commands.go",
		old:  `return c.attached == nil && !now`,
		new:  `return !now`,
	},
	{
		desc: "a command is forgotten when its client may come back", test: "TestCommandIsKeptUntilClosed",
		file: "cmd/hostler-shim/command_attach.go",
		old:  `errors.Is(reason, io.EOF) && a.told && c.output.size() == 0`,
		new:  `!errors.Is(reason, io.ErrNoProgress) && a.told && c.output.size() == 0`,
	},
	{
		desc: "output that was not sent can be acknowledged", test: "TestAcknowledge",
		file: "cmd/hostler-shim/command_attach.go",
		old:  `	if offset > sent {`,
		new:  `	if offset > c.output.end+1 {`,
	},
	{
		desc: "the switches between two streams are not bounded", test: "TestOutputLogSegments",
		file: "cmd/hostler-shim/command_log.go",
		old:  `	if len(l.segments) >= maxLogSegments {`,
		new:  `	if len(l.segments) > maxLogSegments {`,
	},
	{
		desc: "a gap in the input is accepted", test: "TestAddInput",
		file: "cmd/hostler-shim/command.go",
		old:  `	if offset > c.inputReceived {`,
		new:  `	if offset > c.inputReceived+1 {`,
	},
	{
		desc: "a program may send output twice", test: "TestCommandViolations",
		file: "runtime/shim/command_stream.go",
		old:  `(offset != want || rest[0] > 1)`,
		new:  `(offset > want || rest[0] > 1)`,
	},
	{
		desc: "a program may send messages of any size", test: "TestCommandViolations",
		file: "runtime/shim/command_message.go",
		old:  ` || uint64(size) > uint64(limits.max) {`,
		new:  ` {`,
	},
	{
		desc: "a server without its lease sends signals", test: "TestCommandLease",
		file: "runtime/shim/command_stream.go",
		old: `	if err := a.mayChange(); err != nil {
		return err
	}
	defer a.startWatchdog().Stop()`,
		new: `	defer a.startWatchdog().Stop()`,
	},
	{
		desc: "an older program gets more streams than it accepts", test: "TestLimitsOfEarlyProgram",
		file: "runtime/shim/conn.go",
		old:  `channel.remote.limitsFor(channel.features)`,
		new:  `channel.remote`,
	},
	{
		desc: "a peer may send more than a request's own window", test: "TestProtocolLimits",
		file: "runtime/shim/stream.go",
		old:  `recvWindow: window, credit`,
		new:  `recvWindow: Window, credit`,
	},
}
