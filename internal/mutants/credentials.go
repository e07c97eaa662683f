package main

// credentials are mutations of the keys, tokens and bindings of a server.
var credentials = []mutation{
	{
		desc: "a key that was revoked is accepted", test: "TestIsOpen",
		file: "auth/credential/entry.go",
		old:  `case m.find(e.hash) != e || e.RevokedAt != nil:`,
		new:  `case m.find(e.hash) != e:`,
	},
	{
		desc: "a server is open again when its keys are gone", test: "TestIsOpen",
		file: "auth/credential/sync.go",
		old:  `s.memory.hadAny || s.memory.generation > 0 || len`,
		new:  `len`,
	},
	{
		desc: "a server accepts without an end what it cannot compare with the database", test: "TestDatabaseOutage",
		file: "auth/credential/sync.go",
		old:  `return s.isShared && s.clock()`,
		new:  `return false && s.clock()`,
	},
	{
		desc: "each key that does not exist causes a read", test: "TestUnknownKeysCostLittle",
		file: "auth/credential/sync.go",
		old:  `.Add(newKeyPace)`,
		new:  `.Add(newKeyPace / 10)`,
	},
	{
		desc: "the signature of a token is not checked", test: "TestForgedTokens",
		file: "auth/credential/token.go",
		old:  `!hmac.Equal(given, s.signature(signed))`,
		new:  `len(given) == 0`,
	},
	{
		desc: "a token is made for any tenant", test: "TestToken",
		file: "auth/credential/token.go",
		old:  `return p.Matches(tenant) })`,
		new:  `return p.Matches(tenant) || true })`,
	},
	{
		desc: "a token is for more workloads than its maker's", test: "TestToken",
		file: "auth/credential/token.go",
		old:  `return ok && strings.HasPrefix(prefix, within)`,
		new:  `return ok && strings.HasPrefix(within, prefix)`,
	},
	{
		desc: "a token outlives its maker's key", test: "TestTokenEnds",
		file: "auth/credential/token.go",
		old:  `if e.check(m, now) == nil {`,
		new:  `if e != nil {`,
	},
	{
		desc: "the value of a claim is a pattern of tenants", test: "TestBindings",
		file: "auth/credential/subject.go",
		old:  `if tenantPattern.MatchString(tenant) {`,
		new:  `if tenant != "" {`,
	},
	{
		desc: "a binding without the tenants' claim gives all tenants", test: "TestBindings",
		file: "auth/credential/subject.go",
		old:  `return g, len(g.Tenants) > 0`,
		new:  `return g, true`,
	},
	{
		desc: "a line that is gone ends no request", test: "TestFollowedKeyFile",
		file: "auth/credential/sync.go",
		old: `	s.mu.Unlock()
	s.checkAll()`,
		new: `	s.mu.Unlock()`,
	},
	{
		desc: "the first key is a tenant's", test: "TestIsOpen",
		file: "auth/credential/keys.go",
		old:  `if makesOperator || s.hasFileOperator() {`,
		new:  `if makesOperator || s != nil {`,
	},
}
