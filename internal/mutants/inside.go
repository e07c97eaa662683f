package main

// insideRequests are mutations of the requests that programs in containers send.
var insideRequests = []mutation{
	{
		desc: "a late request of a claim counts for the next one", test: "TestRequestActsForItsClaim",
		file: "inside/service.go",
		old:  `if c.ContainerFence == r.Fence {`,
		new:  `if c.ContainerFence >= r.Fence {`,
	},
	{
		desc: "a hook may release its claim", test: "TestRequestActsForItsClaim",
		file: "inside/service.go",
		old:  `case r.FromHook && !row.HooksMay:`,
		new:  `case r.FromHook && !row.HooksMay && false:`,
	},
	{
		desc: "a body has fields that no one reads", test: "TestRequestActsForItsClaim",
		file: "inside/service.go",
		old: `	decoder.DisallowUnknownFields()
`,
	},
	{
		desc: "what follows a body is ignored", test: "TestRequestActsForItsClaim",
		file: "inside/service.go",
		old:  `!errors.Is(err, io.EOF)`,
		new:  `errors.Is(err, io.ErrNoProgress)`,
	},
	{
		desc: "a request that was interrupted is not sent again", test: "TestInterruptedRequestIsSentAgain",
		file: "inside/service.go",
		old:  `case ctx.Err() != nil:`,
		new:  `case false:`,
	},
	{
		desc: "a release is answered twice", test: "TestReleaseAnswersBeforeItEnds",
		file: "inside/service.go",
		old: `	case answered:
`,
	},
	{
		desc: "a release is answered when the container has ended", test: "TestReleaseAnswersBeforeItEnds",
		file: "inside/release.go",
		old:  `func() { respond(released{Claim: c.Claim, State: string(claim.Releasing)}) }`,
		new:  `func() {}`,
	},
	{
		desc: "a request whose answer was lost is done twice", test: "TestServiceDoesOnce",
		file: "inside/service.go",
		old:  `if row.Once {`,
		new:  `if row.Once && false {`,
	},
	{
		desc: "a put is repeated after the loss of a server", test: "TestRepeatedRequestAfterLossOfServer",
		file: "cmd/hostler/inside_linux.go",
		old: `	r.Request = c.Request
	return s.memory.Put`,
		new: `	return s.memory.Put`,
	},
	{
		desc: "a deletion is repeated after the loss of a server", test: "TestRepeatedRequestAfterLossOfServer",
		file: "cmd/hostler/inside_linux.go",
		old: `	r.Request = c.Request
	return s.memory.Delete`,
		new: `	return s.memory.Delete`,
	},
	{
		desc: "the result of a request is forgotten", test: "TestSQLite",
		file: "store/memory.go",
		old:  `return result, recordRequest(t, c, result)`,
		new:  `return result, nil`,
	},
	{
		desc: "a request that was interrupted is never done", test: "TestOnce",
		file: "inside/once.go",
		old:  `if other.failed || now`,
		new:  `if now`,
	},
	{
		desc: "a request that panics ends the server", test: "TestRequestActsForItsClaim",
		file: "inside/service.go",
		old: `	defer s.recoverPanic(by.container, r.Name, respond)
`,
	},
	{
		desc: "requests fill the log while the database is unavailable", test: "TestDescribe",
		file: "api/problem.go",
		old: `	if a.storageUnavailable(err) != nil {
		return runtime.Problem{Code: runtime.ProblemUnavailable, Detail: statuses[StorageUnavailable].title}
	}
`,
	},
	{
		desc: "responses that quote large requests are kept", test: "TestKeptResponsesAreShort",
		file: "inside/service.go",
		old:  `	if len(detail) > maxDetail {`,
		new:  `	if len(detail) > 100*maxDetail {`,
	},
	{
		desc: "what is kept of requests grows", test: "TestOnce",
		file: "inside/once.go",
		old:  `i >= 0 && len(kept) > maxOnce {`,
		new:  `i >= 0 && len(kept) < 0 {`,
	},
	{
		desc: "the session of a released claim stays open", test: "TestSessionOfClaim",
		file: "inside/keeper.go",
		old: `		h.cancel()
		delete(k.kept, id)`,
		new: `		_ = h
		delete(k.kept, id)`,
	},
	{
		desc: "a claim has two sessions", test: "TestSessionOfClaim",
		file: "inside/keeper.go",
		old:  `if _, ok := k.kept[h.Claim]; ok || k.ended[h.Claim]`,
		new:  `if _, ok := k.kept[h.Claim]; ok && false || k.ended[h.Claim]`,
	},
	{
		desc: "a claim that has ended gets a session for good", test: "TestClaimThatHasEnded",
		file: "inside/keeper.go",
		old:  ` || k.ended[h.Claim] || k.earlier[h.Claim] {`,
		new:  ` {`,
	},
	{
		desc: "all sessions of a server are opened at once", test: "TestSessionsAreThoseOnRecord",
		file: "inside/keeper.go",
		old:  `k.keep(h, time.Duration(i)*startInterval)`,
		new:  `k.keep(h, 0*time.Duration(i))`,
	},
	{
		desc: "the session of a claim that ended unnoticed stays open", test: "TestSessionsAreThoseOnRecord",
		file: "inside/keeper.go",
		old: `	for id := range before { // those that became active since are not in it
		k.drop(id)
	}
`,
	},
	{
		desc: "a container that ends each session costs as many as it likes", test: "TestSessionThatEndsAtOnce",
		file: "inside/keeper.go",
		old:  `if time.Since(opened) >= stableAfter {`,
		new:  `if time.Since(opened) >= 0 {`,
	},
	{
		desc: "a lost session is opened again late forever", test: "TestLostSessionIsOpenedAgain",
		file: "inside/keeper.go",
		old: `			wait.Reset()
`,
	},
	{
		desc: "a container of an older protocol is tried again and again", test: "TestContainerWithoutRequests",
		file: "inside/keeper.go",
		old:  `		runtime.ErrUnsupported, runtime.ErrTooOld,`,
		new:  `		runtime.ErrTooOld,`,
	},
	{
		desc: "the claims of a server that is gone have no session", test: "TestAdoption",
		file: "inside/keeper.go",
		old: `	if err != nil || n == 0 {
		return err
	}
	return k.resync(ctx)`,
		new: `	_ = n
	return err`,
	},
	{
		desc: "a server takes the sessions of another one", test: "TestPostgresClaimOwners",
		file: "store/heldclaims.go",
		old:  `AND (owner = $2 OR owner NOT IN (SELECT id FROM replicas))`,
		new:  `AND owner <> $2`,
	},
	{
		desc: "a releasing claim has a session", test: "TestSQLite",
		file: "store/heldclaims.go",
		old:  `FROM claims WHERE state = 'active' AND`,
		new:  `FROM claims WHERE state <> 'pending' AND`,
	},
	{
		desc: "a session that is opened for requests taints its container", test: "TestServeTaintsNothing",
		file: "runtime/shim/serve.go",
		old:  `s.connectWith(ctx, func(_ context.Context, _ time.Time, err error) error { return err })`,
		new:  `s.connect(ctx)`,
	},
	{
		desc: "a container of an older protocol loses its session", test: "TestServeNeedsVersion",
		file: "runtime/shim/serve.go",
		old:  `if c.version < RequestsVersion {`,
		new:  `if c.version < Previous {`,
	},
	{
		desc: "a lost connection is not noticed while nothing is sent", test: "TestServeRequests",
		file: "runtime/shim/serve.go",
		old:  `case <-time.After(serveInterval):`,
		new:  `case <-time.After(100 * serveInterval):`,
	},
	{
		desc: "a silent connection is kept", test: "TestServeEnds",
		file: "runtime/shim/serve.go",
		old: `		c.fail(errConnLost)
	}
	if errors`,
		new: `	}
	if errors`,
	},
	{
		desc: "a container sends as many requests as it likes", test: "TestServeRate",
		file: "runtime/shim/serve.go",
		old:  `case !s.asked.Take(time.Now()):`,
		new:  `case !s.asked.Take(time.Now()) && false:`,
	},
	{
		desc: "a container sends other operations", test: "TestServeRefusesRogueProgram",
		file: "runtime/shim/serve.go",
		old:  `case in.OneWay() || r.Op != OpAsk || r.Streams != 0 || r.Run != nil:`,
		new:  `case in.OneWay() || r.Ask == nil:`,
	},
	{
		desc: "a container has as many handlers as it likes", test: "TestServeBoundsHandlers",
		file: "runtime/shim/serve.go",
		old:  `case a.handlers >= runtime.MaxRequests:`,
		new:  `case a.handlers > 10*runtime.MaxRequests:`,
	},
	{
		desc: "a server stops while it handles requests", test: "TestServeBoundsHandlers",
		file: "runtime/shim/serve.go",
		old: `		a.running.Wait()
`,
	},
	{
		desc: "a handler has no time limit", test: "TestServeHandlerTimeout",
		file: "runtime/shim/serve.go",
		old:  `time.AfterFunc(handlerTimeout, `,
		new:  `time.AfterFunc(100*handlerTimeout, `,
	},
	{
		desc: "the header of a frame makes the server hold its length", test: "TestBodyIsHeldAsItArrives",
		file: "runtime/shim/frame.go",
		old:  `body := make([]byte, min(size, bodyChunk))`,
		new:  `body := make([]byte, size)`,
	},
	{
		desc: "a request of an ended claim is sent", test: "TestAskHasFenceOfClaim",
		file: "cmd/hostler-shim/asks.go",
		old:  ` || by.fence != a.admitted.Load()`,
	},
	{
		desc: "a request of an ended claim is sent on a session of the next one", test: "TestAskHasFenceOfClaim",
		file: "cmd/hostler-shim/asks.go",
		old: `	if b.fence != b.by.fence {
		return nil, nil
	}
`,
	},
	{
		desc: "waiting requests leave no room for others", test: "TestAskLimits",
		file: "cmd/hostler-shim/asks.go",
		old: `		return &o.waits, maxOpenWaits
`,
		new: `		return &o.others, maxOpenWaits
`,
	},
	{
		desc: "what a tenant has asked for stays in progress when its processes have ended", test: "TestAskLimits",
		file: "cmd/hostler-shim/asks.go",
		old: `	a.open = new(openAsks)
}`,
		new: `}`,
	},
	{
		desc: "how much a tenant has asked for counts for the next claim", test: "TestAskLimits",
		file: "cmd/hostler-shim/asks.go",
		old: `	a.rate.Begin(fence)
`,
	},
	{
		desc: "the server counts what earlier claims have asked for", test: "TestServeRateOfClaims",
		file: "runtime/shim/serve.go",
		old: `	s.asked.Begin(fence)
	s.servers`,
		new: `	s.servers`,
	},
	{
		desc: "what a process sent before it was ended is read later", test: "TestConnectionsEndWithTheirProcesses",
		file: "cmd/hostler-shim/ask_listen.go",
		old:  `raw.Control(func(fd uintptr) { closeBacklog(int(fd)) })`,
		new:  `raw.Control(func(uintptr) {})`,
	},
	{
		desc: "a connection of an ended process stays open", test: "TestConnectionsEndWithTheirProcesses",
		file: "cmd/hostler-shim/ask_listen.go",
		old: `	for _, c := range l.conns {
		c.socket.Close()
	}
	l.conns = nil`,
		new: `	l.conns = slices.Clone(l.conns)`,
	},
	{
		desc: "connections that send nothing keep others out", test: "TestSlowConnectionsGiveWay",
		file: "cmd/hostler-shim/ask_listen.go",
		old:  `	if slow < 0 {`,
		new:  `	if slow <= 0 {`,
	},
	{
		desc: "a connection that sends nothing stays open", test: "TestSlowConnectionsGiveWay",
		file: "cmd/hostler-shim/ask_listen.go",
		old: `	_ = c.socket.SetDeadline(time.Now().Add(askIOTimeout))
	ask`,
		new: `	ask`,
	},
	{
		desc: "a process of a hook passes for another one", test: "TestProcessOrigin",
		file: "cmd/hostler-shim/ask_listen.go",
		old:  `if runID, ok := s.workers.commandOf(p.ID); ok {`,
		new:  `if runID, ok := s.workers.commandOf(p.ID); ok && false {`,
	},
	{
		desc: "processes of other containers ask", test: "TestProcessOrigin",
		file: "cmd/hostler-shim/ask_listen.go",
		old:  `			if s.config.HostProcess {`,
		new:  `			if false {`,
	},
	{
		desc: "a process of the tenant asks while the claim is not active", test: "TestAskOfCommand",
		file: "cmd/hostler-shim/asks.go",
		old:  `if by, ok := a.commands[ask.RunID]; ok && ask.FromHook {`,
		new:  `for _, by := range a.commands {`,
	},
	{
		desc: "a command that is over is served", test: "TestAskOfCommand",
		file: "cmd/hostler-shim/asks.go",
		old: `	if r.isOver {
		return
	}
`,
	},
	{
		desc: "what a hook has asked is sent when it is over", test: "TestAskOfCommand",
		file: "cmd/hostler-shim/asks.go",
		old:  `by.fence = shim.NoFence`,
		new:  `_ = by`,
	},
	{
		desc: "a hook asks with the fence of an earlier flow", test: "TestAskOfCommand",
		file: "cmd/hostler-shim/asks.go",
		old:  `by.fence != a.admitted.Load()`,
		new:  `by.fence > a.admitted.Load()`,
	},
	{
		desc: "what serves the requests of a hook is kept when it is over", test: "TestServeCommand",
		file: "runtime/shim/serve.go",
		old:  `s.servers.remove(runID, a); stop()`,
		new:  `stop()`,
	},
	{
		desc: "a process of the tenant passes for one of a hook", test: "TestServeCommand",
		file: "runtime/shim/serve.go",
		old:  `a != nil && ask.FromHook {`,
		new:  `a != nil {`,
	},
	{
		desc: "a hook asks for another claim", test: "TestHookAsksForItsClaim",
		file: "inside/service.go",
		old:  `if by.claim != "" && c.ID != by.claim {`,
		new:  `if false {`,
	},
	{
		desc: "a hook may release a claim that is releasing", test: "TestHookAsksForItsClaim",
		file: "inside/service.go",
		old: `		r.FromHook = true
`,
	},
	{
		desc: "the processes of every command may ask", test: "TestHooksOfFlowsMayAsk",
		file: "hooks/runner/command.go",
		old:  `if a.MayAsk && x.requests != nil {`,
		new:  `if x.requests != nil {`,
	},
	{
		desc: "a hook that another server resumed may not ask", test: "TestHooksOfFlowsMayAsk",
		file: "hooks/runner/attempts.go",
		old: `		a.Fence, a.MayAsk = s.Fence, s.MayAsk
`,
	},
	{
		desc: "the program asks for the release of another claim", test: "TestAskRightAfterActivation",
		file: "cmd/hostler-shim/ask.go",
		old:  ` && !c.atOnce`,
	},
	{
		desc: "a problem reaches the terminal with control characters", test: "TestAskPrintsNoControlCharacters",
		file: "cmd/hostler-shim/ask.go",
		old:  `return unicode.IsControl(r) && r != '\n'`,
		new:  `return unicode.IsControl(r) && r < 0x7f && r != '\n'`,
	},
}
