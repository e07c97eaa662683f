package main

// hookRuns are mutations of packages hooks and hooks/runner.
var hookRuns = []mutation{
	{
		desc: "the reason of a failure, which has what a command printed, is trusted", test: "TestEventVariablesAreTrusted",
		file: "hooks/runner/event.go",
		old:  `	case "claim.released":`,
		new:  `	case "claim.released", "claim.failed":`,
	},
	{
		desc: "a hook has the values that other claims captured", test: "TestCapturedIsBounded",
		file: "hooks/runner/variables.go",
		old:  `{{NoClaim: true}}`,
		new:  `{{Limit: 1000}}`,
	},
	{
		desc: "a point that was begun ends if the file has no hooks at it any more", test: "TestResumeWithFile",
		file: "hooks/runner/runner.go",
		old:  `	w, prior, err := r.begunWith(`,
		new: `	if len(w.Hooks[p]) == 0 {
		return Outcome{Warnings: []string{}}, nil
	}
	w, prior, err := r.begunWith(`,
	},
	{
		desc: "the condition of a hook that was begun is checked again", test: "TestConditionOfBegunHook",
		file: "hooks/runner/point.go",
		old: `	case begun:
		return ""
`,
		new: ``,
	},
	{
		desc: "commands do not have the traceparent of the claim", test: "TestTraceparent", pkg: "release",
		file: "store/reservation.go",
		old:  `, Traceparent: r.Traceparent,`,
		new:  `,`,
	},
	{
		desc: "the hooks of a release have the traceparent of the claim", test: "TestTraceparent",
		file: "release/steps.go",
		old:  `c.Reason, c.ReasonChain, c.RetryAt, c.Traceparent = op.request.Reason, nil, nil, op.request.Traceparent`,
		new:  `c.Reason, c.ReasonChain, c.RetryAt = op.request.Reason, nil, nil`,
	},
	{
		desc: "an invalid traceparent reaches hooks", test: "TestValidTraceparent",
		file: "api/traceparent.go",
		old:  ` || ids[2] == zeroParentID {`,
		new:  ` {`,
	},
	{
		desc: "a file may use variables that nothing supplies yet", test: "TestParseRejectsHooks",
		file: "workload/names.go",
		old:  `isOurs && slices.ContainsFunc(s.on, r.IsSuppliedAt) {`,
		new:  `isOurs {`,
	},
	{
		desc: "the node of a container is not on record", test: "TestNodeIsRecorded",
		file: "pool/provisioner.go",
		old:  `c.Endpoint, c.Node, c.Health = status.Endpoint, status.Node, Healthy`,
		new:  `c.Endpoint, c.Health = status.Endpoint, Healthy`,
	},
	{
		desc: "events do not supply the node", test: "TestTrustedVariablesOfEvents",
		file: "hooks/runner/event.go",
		old: `	if s.node, err = r.nodeOf(ctx, hs, s); err != nil {
		return Attempt{}, err
	}
`,
	},
	{
		desc: "the engine is not asked for the node of a new container", test: "TestNode",
		file: "hooks/runner/variables.go",
		old:  `	return status.Node, nil`,
		new: `	_ = status
	return "", nil`,
	},
	{
		desc: "a removal does not wait for the commands of event hooks", test: "TestRemovalAwaitsCommands", pkg: "delivery",
		file: "hooks/runner/runner.go",
		old: `	if s.EventCommands {
`,
		new: `	if s.EventCommands && false {
`,
	},
	{
		desc: "a container is destroyed because its flow was canceled while a command ran", test: "TestCanceledFlowTaintsNothing",
		file: "hooks/runner/event.go",
		old: `		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
`,
		new: ``,
	},
	{
		desc: "a removal that is resumed skips hooks that the file does not have any more", test: "TestPreDestroyKeepsItsFile", pkg: "pool",
		file: "pool/provisioner.go",
		old:  `return w != nil && c.Forced`,
		new:  `return w != nil && len(w.Hooks[hooks.PreDestroy]) > 0 && c.Forced`,
	},
	{
		desc: "a claim that is resumed skips post_start hooks that the file does not have any more", test: "TestCrashBeforeHooksAreRemoved", pkg: "claim",
		file: "claim/steps.go",
		old:  `	return a.started[hooks.PostStart] || a.restarted && (len(a.w.Hooks[hooks.PostStart]) > 0 || a.w.ImageHooks)`,
		new:  `	return (a.started[hooks.PostStart] || a.restarted) && (len(a.w.Hooks[hooks.PostStart]) > 0 || a.w.ImageHooks)`,
	},
	{
		desc: "an attempt starts before that is recorded", test: "TestRecorderErrors",
		file: "hooks/runner/attempts.go",
		old: `	if err := t.start(ctx, run); err != nil {
		return outcome{}, err
	}
	x := r.executors.Of(h.Action.Kind())
	res := x.Execute(ctx, newAttempt(h, run, s, src))
`,
		new: `	x := r.executors.Of(h.Action.Kind())
	res := x.Execute(ctx, newAttempt(h, run, s, src))
	if err := t.start(ctx, run); err != nil {
		return outcome{}, err
	}
`,
	},
	{
		desc: "hooks after a failed one are not recorded", test: "TestErrorPolicies",
		file: "hooks/runner/point.go",
		old: `			ended = fmt.Sprintf("hook %q of the same point failed", h.Name)
`,
		new: `			return runs, failed, nil
`,
	},
	{
		desc: "a hook is skipped for good because a record could not be written", test: "TestStorageErrorSkipsNoHook",
		file: "hooks/runner/point.go",
		old:  `!isHookError || reason != "" {`,
		new:  `!isHookError && reason != "" {`,
	},
	{
		desc: "a record that could not be written is hidden by the hook that failed", test: "TestUnwrittenSkipIsAnError",
		file: "hooks/runner/runner.go",
		old:  `	if failed != nil && err == nil && !rule.Aborts {`,
		new:  `	if failed != nil && !rule.Aborts {`,
	},
	{
		desc: "a panic of an executor is not recovered", test: "TestExecutorPanics",
		file: "hooks/runner/executor.go",
		old:  `	p := recover()`,
		new:  `	p := any(nil)`,
	},
	{
		desc: "the reason of a skip is lost", test: "TestStatusErrorIsReported",
		file: "hooks/runner/runner.go",
		old:  `		return notRunning + ": " + err.Error(), nil`,
		new:  `		return notRunning, nil`,
	},
	{
		desc: "a command with an unknown result is started again after its timeout", test: "TestExecWhileEngineUnavailable",
		file: "hooks/runner/command.go",
		old:  `errors.Is(err, runtime.ErrUnknownRun) && remaining > 0 {`,
		new:  `errors.Is(err, runtime.ErrUnknownRun) {`,
	},
	{
		desc: "recording an outcome is not retried", test: "TestRecorderErrors",
		file: "hooks/runner/trail.go",
		old:  `		if err == nil || retries.Sleep(ctx) != nil {`,
		new:  `		if err == nil || retries != nil {`,
	},
	{
		desc: "the hook after a lost one runs", test: "TestErrorPolicies",
		file: "hooks/runner/command.go",
		old:  `MayContinue: ran || r.State == hooks.StartFailed}`,
		new:  `MayContinue: r.State != hooks.Cancelled}`,
	},
	{
		desc: "a hook is retried once too often", test: "TestErrorPolicies",
		file: "hooks/runner/policy.go",
		old:  `o.run.Attempt <= h.Retries:`,
		new:  `o.run.Attempt <= h.Retries+1:`,
	},
	{
		desc: "a container in which a hook may still run is not discarded", test: "TestErrorPolicies",
		file: "hooks/runner/attempts.go",
		old:  `	if errors.Is(err, runtime.ErrTainted) {`,
		new:  `	if errors.Is(err, runtime.ErrTainted) && run.Attempt == 0 {`,
	},
	{
		desc: "an attempt that may still run counts as canceled when its flow was stopped", test: "TestTaintedRunIsUnknownNotCancelled",
		file: "hooks/runner/command.go",
		old:  `	case ctx.Err() != nil && !errors.Is(err, runtime.ErrTainted):`,
		new:  `	case ctx.Err() != nil:`,
	},
	{
		desc: "a hook's own environment overrides Hostler's variables", test: "TestHostlerVariablesTakePrecedence",
		file: "hooks/runner/command.go",
		old: `	for name, value := range p.Environment {
		env[name] = value.Text(a.Lookup)
	}
	maps.Copy(env, environment(a.Context))
`,
		new: `	maps.Copy(env, environment(a.Context))
	for name, value := range p.Environment {
		env[name] = value.Text(a.Lookup)
	}
`,
	},
	{
		desc: "how an attempt was ended is not recorded", test: "TestRunRecordIsComplete",
		file: "hooks/runner/command.go",
		old:  `hooks.Detail{Signal: res.Signal, TimedOut: res.TimedOut, Killed: res.Killed, OOMKilled: res.OOMKilled, Leaked: res.Leaked},`,
		new:  `hooks.Detail{TimedOut: res.TimedOut},`,
	},
	{
		desc: "a hook that was started by an earlier server runs again", test: "TestResumePriorRuns",
		file: "hooks/runner/attempts.go",
		old:  `return x.WaitResult(ctx, a)`,
		new:  `return x.Execute(ctx, a)`,
	},
	{
		desc: "an outcome is requested only for as long as the attempt could have lasted", test: "TestSkipWaitsForEngine",
		file: "hooks/runner/command.go",
		old:  `context.WithTimeout(ctx, a.Timeout+resumeTimeout)`,
		new:  `context.WithTimeout(ctx, a.Timeout+0*resumeTimeout)`,
	},
	{
		desc: "the end of a hook that is ended by force is not awaited", test: "TestForceAwaitsRecord",
		file: "hooks/runner/recover.go",
		old: `		if s.EndsOthers {
			if err := r.awaitRecord`,
		new: `		if s.EndsOthers && false {
			if err := r.awaitRecord`,
	},
	{
		desc: "a hook whose container was removed by force is lost", test: "TestResumeOfHookEndedByForce",
		file: "hooks/runner/attempts.go",
		old:  `res.State == hooks.Failed || isGone {`,
		new:  `res.State == hooks.Failed && !isGone {`,
	},
	{
		desc: "a server continues flows before it knows what is destroyed by force", test: "TestRecoverEndsForcedHooks", pkg: "pool",
		file: "pool/pool.go",
		old: `	if err := p.endForced(ctx); err != nil {
		return fmt.Errorf("list the containers that`,
		new: `	if err := error(nil); err != nil {
		return fmt.Errorf("list the containers that`,
	},
	{
		desc: "a container that exits before anything is asked of it is unhealthy", test: "TestExitWithoutCheck", pkg: "pool",
		file: "pool/health.go",
		old:  `return status, exitErrorOfStatus(status)`,
		new:  `return status, fmt.Errorf("%w: exited with code %d", ErrUnhealthy, status.ExitCode)`,
	},
	{
		desc: "a builtin that a killed server had cut off does not run again", test: "TestHarmlessActionsRunAgain",
		file: "hooks/runner/attempts.go",
		old:  `(h.Idempotent || r.executors.Of(p.Kind).Ending(p).Harmless)`,
		new:  `h.Idempotent`,
	},
	{
		desc: "a hook that is not idempotent runs again when its outcome is unknown", test: "TestResumePriorRuns",
		file: "hooks/runner/attempts.go",
		old:  `last && (h.Idempotent ||`,
		new:  `last && (true ||`,
	},
	{
		desc: "an idempotent hook runs again although a process of it may remain", test: "TestResumePriorRuns",
		file: "hooks/runner/command.go",
		old: `		Gone:   err == nil || errors.Is(err, runtime.ErrUnknownRun),
`,
		new: `		Gone:   true,
`,
	},
	{
		desc: "runs of other servers are ended", test: "TestMarkUnknown",
		file: "hooks/runner/recover.go",
		old:  `		if !slices.Contains(ids, run.ID) {`,
		new:  `		if slices.Contains(ids, "none") {`,
	},
	{
		desc: "runs that a flow will resume are ended", test: "TestMarkUnknown",
		file: "hooks/runner/recover.go",
		old: `		if resumes {
			continue
		}
`,
		new: `		_ = resumes
`,
	},
	{
		desc: "the point continues although the records of earlier runs cannot be read", test: "TestNoHookRunsIfRecordsAreUnreadable",
		file: "hooks/runner/point.go",
		old: `	if err != nil {
		return nil, fmt.Errorf("list the prior runs of %s: %w", p, err)
	}
`,
		new: `	if err != nil {
		return nil, nil
	}
`,
	},
	{
		desc: "hooks of a stopped flow are not recorded", test: "TestSkipIsRecordedAfterCancel",
		file: "hooks/runner/point.go",
		old: `	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
`,
		new: `	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
`,
	},
	{
		desc: "pre_release aborts the release", test: "TestPreReleaseFails",
		file: "hooks/point.go", pkg: "release",
		old: `Point: PreRelease, MayBeStopped`,
		new: `Point: PreRelease, Aborts: true, MayBeStopped`,
	},
	{
		desc: "a failed post_claim is a warning", test: "TestPostClaimFails",
		file: "hooks/point.go", pkg: "claim",
		old: `Point: PostClaim, Aborts: true,`,
		new: `Point: PostClaim,`,
	},
	{
		desc: "a point that is not in its flow", test: "TestEveryPointIsFired",
		file: "hooks/point.go", pkg: "release",
		old: `	{
		Point: PreDestroy,`,
		new: `	{Point: "post_destroy", DefaultTimeout: DefaultTimeout, MaxTimeout: MaxTimeout},
	{
		Point: PreDestroy,`,
	},
	{
		desc: "hooks of an exited container are started", test: "TestFireInStoppedContainer",
		file: "hooks/runner/runner.go",
		old:  `	case err != nil, status.State != runtime.Running:`,
		new:  `	case err != nil && status.State != runtime.Running:`,
	},
	{
		desc: "hooks are skipped because the server stops", test: "TestFireCanceledBeforeStart",
		file: "hooks/runner/runner.go",
		old: `	case ctx.Err() != nil:
		return "", context.Cause(ctx)
`,
	},
	{
		desc: "pre_destroy runs at the same time as a hook of a claim", test: "TestPreDestroyWaitsForOtherHooks",
		file: "hooks/point.go", pkg: "pool",
		old: `MayBeStopped: true, AwaitsOthers: true,`,
		new: `MayBeStopped: true,`,
	},
	{
		desc: "a retry ignores what the executor says about the attempt", test: "TestNext",
		file: "hooks/runner/policy.go",
		old:  `	case o.ending.MayRetry && o.run`,
		new:  `	case o.run`,
	},
	{
		desc: "a point continues in a container that is in doubt", test: "TestNext",
		file: "hooks/runner/policy.go",
		old:  `hooks.Continue && o.ending.MayContinue:`,
		new:  `hooks.Continue:`,
	},
	{
		desc: "a resumed hook does not count the attempts on record", test: "TestResumePriorRuns",
		file: "hooks/runner/attempts.go",
		old:  `run.ID, run.Attempt = p.ID, p.Attempt+1`,
		new:  `run.ID = p.ID`,
	},
	{
		desc: "the timeouts of a point are not read", test: "TestTimeoutsOfPoints",
		file: "workload/points.go",
		old:  `reflect.ValueOf(&h.hookFile).Elem(), h.rule(kindOfNode(n)))`,
		new:  `reflect.ValueOf(&h.hookFile).Elem(), hookRule(hooks.PointRule{DefaultTimeout: hooks.DefaultTimeout}))`,
	},
	{
		desc: "a change of state has no phase", test: "TestEveryStateChangeHasItsPhase",
		file: "hooks/runner/event.go",
		old: `	"container.wiped":      {"running", "running"},
`,
		new: ``,
	},
	{
		desc: "an event of a failure has no message of an error", test: "TestEventVariables",
		file: "hooks/runner/event.go",
		old:  `all["ERROR_MESSAGE"] = e.Message`,
		new:  ``,
	},
}
