package main

// gateRows are mutations of what decides about tenants' commands, files and requests.
var gateRows = []mutation{
	{
		desc: "a hook that fails allows", test: "TestOnlyAllowAllows",
		file: "hooks/gate/gate.go",
		old:  `	return answer{state: res.State, err: res.Err, message: couldNot + text, detail: res.Detail}`,
		new:  `	return answer{isAllowed: true, state: res.State, err: res.Err, message: couldNot + text, detail: res.Detail}`,
	},
	{
		desc: "the decision of an error response counts", test: "TestOnlyAllowAllows",
		file: "hooks/gate/answer.go",
		old:  `	case !isSuccess:`,
		new:  `	case !isSuccess && decision != hooks.Allow:`,
	},
	{
		desc: "every decision but deny allows", test: "TestOnlyAllowAllows",
		file: "hooks/gate/answer.go",
		old:  `	case decision != hooks.Allow:`,
		new:  `	case decision == hooks.Deny:`,
	},
	{
		desc: "a workload that cannot be read has no gates", test: "TestWorkloadOfRevision",
		file: "hooks/gate/gate.go",
		old: `	if err == nil && w == nil {
		err = pool.ErrWorkloadNotFound
	}
	return w, err`,
		new: `	if err != nil || w == nil {
		w = &workload.Workload{}
	}
	return w, nil`,
	},
	{
		desc: "the first hook that allows ends the list", test: "TestEveryHookMustAllow",
		file: "hooks/gate/gate.go",
		old: `		if !a.isAllowed {
			return nil, s.refuse(ctx, run, a)
		}
	}`,
		new: `		if !a.isAllowed {
			return nil, s.refuse(ctx, run, a)
		}
		break
	}`,
	},
	{
		desc: "secrets are sent to a receiver", test: "TestEnvelope",
		file: "hooks/gate/use.go",
		old:  `		described.Args[i] = s.redact(text)`,
		new:  `		described.Args[i] = text`,
	},
	{
		desc: "a claim takes all checks of a server", test: "TestChecksAreBounded",
		file: "hooks/gate/gate.go",
		old:  `newSlots(maxChecks, maxChecksOfClaim)`,
		new:  `newSlots(maxChecks, maxChecks)`,
	},
	{
		desc: "a tenant fills the database with refusals", test: "TestRecordsAreBounded",
		file: "hooks/gate/gate.go",
		old:  `s.o.Record == nil || !s.records.take(run.Claim)`,
		new:  `s.o.Record == nil`,
	},
	{
		desc: "the container is not told the allowed directories", test: "TestPaths", pkg: "hooks/gate",
		file: "hooks/builtin/guards.go",
		old:  `	return Result{Within: allowed}, nil`,
		new:  `	return Result{}, nil`,
	},
	{
		desc: "a working directory with .. is inside", test: "TestPaths", pkg: "hooks/gate",
		file: "hooks/builtin/guards.go",
		old:  `(hasParent || !isWithin(c.Use.Workdir, allowed))`,
		new:  `(hasParent && false || !isWithin(c.Use.Workdir, allowed))`,
	},
	{
		desc: "a script that cannot be read is allowed", test: "TestEvasions",
		file: "hooks/lint/guard.go",
		old: `	if file == nil {
		j.add(call{}, unreadable)
		return`,
		new: `	if file == nil {
		return`,
	},
	{
		desc: "a parser follows brackets as deep as they are", test: "TestGuardIsBounded",
		file: "hooks/lint/guard.go",
		old: `		if depth > maxOpen {
			return true
		}`,
		new: `		_ = maxOpen`,
	},
	{
		desc: "what a guard inserts for variables is not bounded", test: "TestGuardIsBounded",
		file: "hooks/lint/destructive.go",
		old:  `j.guard.budget < 0 || j.guard.expanded < 0`,
		new:  `j.guard.budget < 0`,
	},
	{
		desc: "secure replaces what the file names", test: "TestSecure",
		file: "workload/gates.go",
		old:  `		if r.Guard != "" && !f.Hooks.names(r.Gate) {`,
		new:  `		if r.Guard != "" {`,
	},
}
