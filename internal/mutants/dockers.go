package main

// dockers are changes of package runtime/docker.
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
}
