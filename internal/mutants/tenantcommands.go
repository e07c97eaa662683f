package main

// tenantCommands are mutations of the commands of tenants, from the API down.
var tenantCommands = []mutation{
	{
		desc: "the tenant's commands run during pre_release", test: "TestCommandsEndBeforePreRelease",
		file: "release/steps.go",
		old: `		flow.Step{Name: "end_uses", When: op.mayBeUsed, Do: op.endUses},
`,
	},
	{
		desc: "the hooks of a release run although the commands were not ended", test: "TestReleaseWhenCommandsCannotBeEnded",
		file: "release/steps.go",
		old:  `return fmt.Errorf("end the tenant's commands: %w", err)`,
		new:  `return nil`,
	},
	{
		desc: "a container with a command that cannot be ended is used again", test: "TestReleaseWhenCommandsCannotBeEnded",
		file: "release/steps.go",
		old: `			op.unusable, op.unusableChain = rootcause.Of(err)
		}`,
		new: `			_, op.unusableChain = rootcause.Of(err)
		}`,
	},
	{
		desc: "a command may run as root in any container", test: "TestCommandErrors", pkg: "./api",
		file: "access/commandchecks.go",
		old:  `own && (user == g.Workload.User || isRoot(g.Workload.User))`,
		new:  `own`,
	},
	{
		desc: "a workload that became root makes its old containers root", test: "TestUserOfChangedWorkload", pkg: "./api",
		file: "access/commandchecks.go",
		old:  `g.Workload != nil && g.Workload.Revision == g.Claim.Revision`,
		new:  `g.Workload != nil`,
	},
	{
		desc: "a gate does not refuse a command", test: "TestGateRefusesCommand", pkg: "./api",
		file: "access/commands.go",
		old: `	if err := s.o.Gates.Exec(ctx, g, use); err != nil {
		return nil, err
	}
`,
	},
	{
		desc: "a command outlives the client that waits for it", test: "TestExecEndsWithItsClient", pkg: "./api",
		file: "access/run.go",
		old:  `		s.end(ctx, g, c.ID)`,
		new:  `		_ = g`,
	},
	{
		desc: "a request to control a command takes its reader's place", test: "TestReaderIsReplacedByReaderOnly", pkg: "./api",
		file: "api/commands.go",
		old:  `a.o.Access.Attach(ctx, at.ID, at.Command, runtime.ControlOnly)`,
		new:  `a.o.Access.Attach(ctx, at.ID, at.Command, 0)`,
	},
	{
		desc: "a WebSocket may send any amount of input", test: "TestSocketIsBounded",
		file: "api/commandsocket.go",
		old:  `if s.pending.Add(int64(len(data))) > maxSocketInput {`,
		new:  `if s.pending.Add(int64(len(data))) < 0 {`,
	},
	{
		desc: "a client does not continue where its connection was lost", test: "TestCommandThroughLostConnections",
		file: "client/command.go",
		old:  `query.Set("after", strconv.FormatInt(cmd.offset, 10))`,
		new:  `query.Set("after", strconv.FormatInt(min(cmd.offset, 1), 10))`,
	},
	{
		desc: "a line that is not JSON is read as output", test: "TestReadOutputLine",
		file: "client/outputline.go",
		old:  `if !found || bytes.IndexByte(encoded, '\r') >= 0 || bytes.IndexByte(encoded, '\n') >= 0 {`,
		new:  `if !found {`,
	},
	{
		desc: "a number that is not JSON is read as an offset", test: "TestReadOutputLine",
		file: "client/outputline.go",
		old:  `err != nil || strconv.FormatInt(offset, 10) != string(rest[:end])`,
		new:  `err != nil`,
	},
	{
		desc: "output that is not in base64 is cut", test: "TestReadOutputLine",
		file: "client/outputline.go",
		old:  `Data: r.data}, err == nil`,
		new:  `Data: r.data}, true`,
	},
	{
		desc: "the requests for commands of a claim have the bound of ports", test: "TestCommandCallBounds",
		file: "access/access.go",
		old:  `newSlots(ErrTooManyCalls, maxCommandCalls)`,
		new:  `newSlots(ErrTooManyCalls, maxPorts)`,
	},
	{
		desc: "an attachment that fails keeps its place", test: "TestCommandCallBounds",
		file: "access/commands.go",
		old: `		end()
		return nil, asUsed(fmt.Errorf("attach to the command %s: %w", id, err))`,
		new: `		return nil, asUsed(fmt.Errorf("attach to the command %s: %w", id, err))`,
	},
	{
		desc: "a release that needs no engine waits for it to end commands", test: "TestReleaseWithoutHooksWhileCommandsCannotBeEnded",
		file: "release/steps.go",
		old:  `errors.Is(err, runtime.ErrUnavailable) && !op.readsFiles():`,
		new:  `errors.Is(err, runtime.ErrUnavailable) && op.readsFiles() && false:`,
	},
	{
		desc: "hooks of a release run while commands may change their files", test: "TestReleaseWhenCommandsCannotBeEnded",
		file: "release/steps.go",
		old:  `return op.container.HasHooks(hooks.PreRelease, op.w) || op.hasSyncOnRelease()`,
		new:  `return op.hasSyncOnRelease()`,
	},
}
