package main

// keyRoutes are mutations of the routes and commands of keys, tokens and bindings.
var keyRoutes = []mutation{
	{
		desc: "everyone with a role creates keys", test: "TestOnlyOperatorsManageCredentials", pkg: "api",
		file: "api/rules.go",
		old:  `"create-key": {operators, onServer},`,
		new:  `"create-key": {everyone, onServer},`,
	},
	{
		desc: "a tenant makes tokens of others", test: "TestTokens", pkg: "api",
		file: "api/tokens.go",
		old:  `return s.Tenant.Matches(t.Tenant) && (s.Claim`,
		new:  `return (s.Claim`,
	},
	{
		desc: "a token for one claim makes one for all", test: "TestTokens", pkg: "api",
		file: "api/tokens.go",
		old:  ` && (s.Claim == "" || s.Claim == t.Claim)`,
	},
	{
		desc: "a token is for a claim of another tenant", test: "TestTokens", pkg: "api",
		file: "api/tokens.go",
		old:  `c.Tenant != t.Tenant || !scopeOf`,
		new:  `!scopeOf`,
	},
	{
		desc: "can-i permits what the role does not", test: "TestCanI", pkg: "api",
		file: "api/whoami.go",
		old:  `	if !p.Has(r.roles...) {`,
		new:  `	if len(p.Grants) == 0 {`,
	},
	{
		desc: "can-i shows that a claim of another tenant exists", test: "TestCanI", pkg: "api",
		file: "api/whoami.go",
		old:  `if err != nil || !scope.Includes(c.Tenant, c.Workload, c.ID) ||`,
		new:  `if err != nil ||`,
	},
	{
		desc: "a key that would act on everything by mistake is created", test: "TestInvalidKeysAndBindings", pkg: "api",
		file: "api/keys.go",
		old:  `if err := g.Check(); err != nil {`,
		new:  `if err := g.Check(); err != nil && role == "" {`,
	},
	{
		desc: "the end of an open server is not reported", test: "TestFirstKeyClosesServer", pkg: "api",
		file: "api/keys.go",
		old:  `closed := wasOpen && !a.isOpen()`,
		new:  `closed := wasOpen && a.isOpen()`,
	},
	{
		desc: "a server without a credential listens on all addresses", test: "TestOpenServerIsOnLoopback", pkg: "cmd/hostler",
		file: "cmd/hostler/credentials_linux.go",
		old:  `!ok || !tcp.IP.IsLoopback()`,
		new:  `!ok || tcp.IP.IsLoopback() != tcp.IP.IsLoopback()`,
	},
	{
		desc: "a key is printed with text", test: "TestKeyCreate", pkg: "cmd/hostler",
		file: "cmd/hostler/key.go",
		old:  `fmt.Fprintln(w, k.Secret)`,
		new:  `fmt.Fprintln(w, k.Name, k.Secret)`,
	},
}
