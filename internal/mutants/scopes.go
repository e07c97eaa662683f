package main

// scopeRows are mutations of who may do what on which things, and of what they see.
var scopeRows = []mutation{
	{
		desc: "an id of others is permitted", test: "TestAccessTable",
		file: "api/authorize.go",
		old:  `		isOwn = isOwn && scope.Includes(o.tenant, o.workload, o.claim)`,
		new:  `		isOwn = isOwn && scope.Includes(o.tenant, o.workload, o.claim) || o.claim != ""`,
	},
	{
		desc: "a list may be filtered by another tenant", test: "TestAccessTable",
		file: "api/authorize.go",
		old: `		if row.Tenant.Matches(tenant) {
			return true
		}
	}
	return false`,
		new: `		if row.Tenant.Matches(tenant) {
			return true
		}
	}
	return true`,
	},
	{
		desc: "an author reads the pools of others", test: "TestAccessTable",
		file: "api/pools.go",
		old:  `return !isOwnWorkload(scope, s.Workload)`,
		new:  `return !isOwnWorkload(nil, s.Workload) && scope != nil`,
	},
	{
		desc: "a claim of another workload shows that there is none", test: "TestTenantSeesOnlyItsOwn", pkg: "api",
		file: "api/claims.go",
		old:  `	if scopeOf(ctx) != nil && errors.Is(err, pool.ErrWorkloadNotFound) {`,
		new:  `	if scopeOf(ctx) == nil && errors.Is(err, pool.ErrWorkloadNotFound) {`,
	},
	{
		desc: "a tenant sees who claimed its last container", test: "TestTenantSeesOnlyItsOwn", pkg: "api",
		file: "store/containers.go",
		old:  `	if c.Claim == "" || e.Tenant != "" {`,
		new:  `	if c.Claim != "" || e.Tenant != "" {`,
	},
	{
		desc: "a tenant's list of hook runs has those of all", test: "TestTenantSeesOnlyItsOwn", pkg: "api",
		file: "store/runs.go",
		old:  `	w.scope(f.Scope, "claim")`,
		new:  ``,
	},
	{
		desc: "a stream has the events of all", test: "TestTenantSeesOnlyItsOwn", pkg: "api",
		file: "store/eventbuffer.go",
		old:  `return ofType && f.Scope.Includes(e.Tenant, e.Workload, e.Claim)`,
		new:  `return ofType`,
	},
	{
		desc: "a prefix is one character shorter", test: "TestScopeConditions",
		file: "store/scope.go",
		old:  `utf8.RuneCountInString(text), c.value`,
		new:  `utf8.RuneCountInString(text)-1, c.value`,
	},
	{
		desc: "a grant of all tenants has what is no tenant's", test: "TestScopeConditions",
		file: "store/scope.go",
		old:  `	if r.owned && len(tenants) == 0 {`,
		new:  `	if r.owned && len(tenants) != 0 {`,
	},
	{
		desc: "a viewer sees the output of hooks", test: "TestRedaction",
		file: "api/redact.go",
		old:  `	func(r *hooks.Run) { r.Stderr = runtime.Output{} },`,
		new:  ``,
	},
	{
		desc: "a stream does not report why it ends", test: "TestRevokedStreamEnds",
		file: "api/follow.go",
		old: `	if cause == nil {
		return
	}
	f.buf`,
		new: `	if cause != nil {
		return
	}
	f.buf`,
	},
	{
		desc: "an upload continues after its credential was revoked", test: "TestRevokedUpload",
		file: "api/files.go",
		old: `	defer body.cutOff()()
`,
		new: ``,
	},
}
