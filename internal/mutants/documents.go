package main

// documents are mutations of the API's description of itself, and of what it
// refuses.
var documents = []mutation{
	{
		desc: "a parameter that is given twice is taken", test: "TestBadRequests",
		file: "api/repeated.go",
		old:  `len(query[p.Name]) > 1 {`,
		new:  `len(query[p.Name]) > 9 {`,
	},
	{
		desc: "a body of a form is refused without a hint", test: "TestBadRequests",
		file: "api/problem.go",
		old:  `	if e.Status == http.StatusUnsupportedMediaType {`,
		new:  `	if e.Status == 0 {`,
	},
	{
		desc: "a response may not get another property", test: "TestDocumentSchemas",
		file: "api/openapi_schemas.go",
		old:  `		if !requests[name] {`,
		new:  `		if requests[name] {`,
	},
	{
		desc: "properties have no values", test: "TestDocumentSchemas",
		file: "api/openapi_schemas.go",
		old:  `			p["enum"] = values`,
		new:  `			_ = values`,
	},
	{
		desc: "the document has another rule for tenants", test: "TestDocumentHasRuleForTenants",
		file: "api/openapi_schemas.go",
		old:  `s["maxLength"] = claim.TenantPattern, 1, claim.MaxTenant`,
		new:  `s["maxLength"] = claim.TenantPattern, 1, 200`,
	},
	{
		desc: "the document has errors without statuses", test: "TestDocumentOperations",
		file: "api/openapi.go",
		old:  `			describeErrors(o)`,
		new:  `			_ = describeErrors`,
	},
	{
		desc: "Accept is a parameter", test: "TestDocumentOperations",
		file: "api/openapi_info.go",
		old:  `slices.Contains(negotiated, p.Name)`,
		new:  `len(p.Name) == 0`,
	},
	{
		desc: "a stream ignores what is accepted", test: "TestStreamHasItsOwnPath",
		file: "api/events.go",
		old:  `cmp.Or(in.format(), typeNDJSON)`,
		new:  `cmp.Or(typeNDJSON, in.format())`,
	},
}

// fakes are mutations of the runtime in memory: the promises of its streams.
var fakes = []mutation{
	{
		desc: "the fake keeps any amount of output", test: "TestTenantCommandIsHeldBack",
		file: "runtime/fake/commandoutput.go",
		old:  `int(runtime.CommandBuffer - (s.end - s.start))`,
		new:  `int(runtime.CommandBuffer<<4 - (s.end - s.start))`,
	},
	{
		desc: "the fake attaches to a command of another claim", test: "TestTenantCommandsOfAnotherClaim",
		file: "runtime/fake/tenantcommands.go",
		old:  `t.spec.ID == id && t.spec.Fence == fence {`,
		new:  `t.spec.ID == id {`,
	},
	{
		desc: "the fake remembers commands after a wipe", test: "TestTenantCommandsEndWithTheContainer",
		file: "runtime/fake/exec.go",
		old:  `	c.tenant = nil`,
		new:  ``,
	},
	{
		desc: "the fake leaves the directories of a file reference by a link", test: "TestTenantFilesStayWithin",
		file: "runtime/fake/fileaccess.go",
		old:  `	at := p.path`,
		new:  `	at := name`,
	},
	{
		desc: "the fake connects for a claim that has ended", test: "TestDialPort",
		file: "runtime/fake/ports.go",
		old:  `		if err := c.admit(fence); err != nil {`,
		new:  `		if err := c.admit(0); err != nil {`,
	},
	{
		desc: "a connection of the fake holds any amount", test: "TestDialPortLimits",
		file: "runtime/fake/portpipe.go",
		old:  `runtime.PortWindow-len(c.peer.received)`,
		new:  `runtime.PortWindow<<10-len(c.peer.received)`,
	},
}
