package main

// hookRuns are mutations of package hooks.
var hookRuns = []mutation{
	{
		desc: "an attempt starts before that is recorded", test: "TestRecorderErrors",
		file: "hooks/runner.go",
		old: `	if err := r.recorder.RunStarted(ctx, run); err != nil {
		return Run{}, fmt.Errorf("record the start of hook %q: %w", h.Name, err)
	}
	call := r.call(h, run)
	call.Environment = hookEnvironment(run, source)
	res, err := r.execWithReconnect(ctx, h, call)
`,
		new: `	call := r.call(h, run)
	call.Environment = hookEnvironment(run, source)
	res, err := r.execWithReconnect(ctx, h, call)
	if err := r.recorder.RunStarted(ctx, run); err != nil {
		return Run{}, fmt.Errorf("record the start of hook %q: %w", h.Name, err)
	}
`,
	},
	{
		desc: "hooks after a failed one are not recorded", test: "TestErrorPolicies",
		file: "hooks/runner.go",
		old: `			return append(runs, skipped...), errors.Join(err, skipErr)
`,
		new: `			return append(runs, skipped[:0]...), errors.Join(err, skipErr)
`,
	},
	{
		desc: "a command with an unknown result is started again after its timeout", test: "TestExecWhileEngineUnavailable",
		file: "hooks/runner.go",
		old:  `errors.Is(err, runtime.ErrUnknownRun) && remaining > 0 {`,
		new:  `errors.Is(err, runtime.ErrUnknownRun) {`,
	},
	{
		desc: "recording an outcome is not retried", test: "TestRecorderErrors",
		file: "hooks/runner.go",
		old: `		if flow.Sleep(ctx, backoff(attempt)) != nil {
			return err
		}
	}
}
`,
		new: `		if err != nil || attempt > 0 {
			return err
		}
	}
}
`,
	},
	{
		desc: "the hook after a lost one runs", test: "TestErrorPolicies",
		file: "hooks/runner.go",
		old:  `func hasEndedCleanly(s RunState) bool { return s == Failed || s == TimedOut || s == StartFailed }`,
		new:  `func hasEndedCleanly(s RunState) bool { return s != Cancelled }`,
	},
	{
		desc: "a hook is retried once too often", test: "TestErrorPolicies",
		file: "hooks/runner.go",
		old:  `run.Attempt > h.Retries ||`,
		new:  `run.Attempt > h.Retries+1 ||`,
	},
	{
		desc: "a container in which a hook may still run is not discarded", test: "TestErrorPolicies",
		file: "hooks/runner.go",
		old: `	if errors.Is(err, runtime.ErrTainted) {
		return errors.Join(&Error{Run: run}, err)
	}
	return nil
`,
		new: `	return nil
`,
	},
	{
		desc: "an attempt that may still run counts as canceled when its flow was stopped", test: "TestTaintedRunIsUnknownNotCancelled",
		file: "hooks/runner.go",
		old:  `	case ctx.Err() != nil && !errors.Is(err, runtime.ErrTainted):`,
		new:  `	case ctx.Err() != nil:`,
	},
	{
		desc: "a hook's own environment overrides Hostler's variables", test: "TestHostlerVariablesTakePrecedence",
		file: "hooks/exec.go",
		old: `	maps.Copy(env, e.Environment)
	maps.Copy(env, c.Environment)
`,
		new: `	maps.Copy(env, c.Environment)
	maps.Copy(env, e.Environment)
`,
	},
	{
		desc: "how an attempt was ended is not recorded", test: "TestRunRecordIsComplete",
		file: "hooks/runner.go",
		old: `	run.Signal, run.TimedOut, run.Killed, run.Leaked = res.Signal, res.TimedOut, res.Killed, res.Leaked
`,
		new: `	run.TimedOut = res.TimedOut
`,
	},
	{
		desc: "a hook that was started by an earlier server runs again", test: "TestResumePriorRuns",
		file: "hooks/resume.go",
		old: `	res, err := r.waitResult(ctx, h, run)
	mayStillRun`,
		new: `	res, err := h.Action.Run(ctx, r.call(h, run))
	mayStillRun`,
	},
	{
		desc: "an outcome is requested only for as long as the attempt could have lasted", test: "TestSkipWaitsForEngine",
		file: "hooks/resume.go",
		old:  `context.WithTimeout(ctx, h.Timeout+resumeTimeout)`,
		new:  `context.WithTimeout(ctx, h.Timeout)`,
	},
	{
		desc: "a hook that is not idempotent runs again when its outcome is unknown", test: "TestResumePriorRuns",
		file: "hooks/runner.go",
		old:  `h.Idempotent && len(prior) == 1`,
		new:  `len(prior) == 1`,
	},
	{
		desc: "an idempotent hook runs again although a process of it may remain", test: "TestResumePriorRuns",
		file: "hooks/resume.go",
		old: `	mayStillRun := err != nil && !errors.Is(err, runtime.ErrUnknownRun)
`,
		new: `	mayStillRun := false
`,
	},
	{
		desc: "runs of other servers are ended", test: "TestMarkUnknown",
		file: "hooks/resume.go",
		old:  `		if !slices.Contains(ids, run.ID) {`,
		new:  `		if slices.Contains(ids, "none") {`,
	},
	{
		desc: "runs that a flow will resume are ended", test: "TestMarkUnknown",
		file: "hooks/resume.go",
		old: `		if resumes {
			continue
		}
`,
		new: `		_ = resumes
`,
	},
	{
		desc: "the point continues although the records of earlier runs cannot be read", test: "TestNoHookRunsIfRecordsAreUnreadable",
		file: "hooks/resume.go",
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
		file: "hooks/runner.go",
		old: `	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return r.recorder.RunSkipped(ctx, run)
`,
		new: `	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return r.recorder.RunSkipped(ctx, run)
`,
	},
}
