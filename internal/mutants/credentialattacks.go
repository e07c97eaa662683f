package main

// credentialAttacks are mutations of what attacks on credentials found.
var credentialAttacks = []mutation{
	{
		desc: "a file that is half written is used", test: "TestHalfWrittenKeyFile",
		file: "auth/credential/followed.go",
		old:  `return now.Sub(f.since) >= settleTime`,
		new:  `return true || now.Sub(f.since) >= settleTime`,
	},
	{
		desc: "two makers of tokens have one actor", test: "TestTokensOfMakersOfOneName",
		file: "auth/credential/token.go",
		old:  `Actor:   "token:" + i.Actor + "#" + i.Tenant,`,
		new:  `Actor:   "token:" + i.Maker + "#" + i.Tenant,`,
	},
	{
		desc: "a subject has the name that another one was given", test: "TestNamesOfSubjectsDiffer",
		file: "auth/credential/check.go",
		old:  `if r == '#' || r == '~' ||`,
		new:  `if r == '#' ||`,
	},
	{
		desc: "a server without credentials is open without its database", test: "TestOpenServerWithoutItsDatabase",
		file: "auth/credential/authenticate.go",
		old:  `return s.open.Load() && !s.isStale() }`,
		new:  `return s.open.Load() }`,
	},
	{
		desc: "the access log shows a subject as a key", test: "TestLoggedNames",
		file: "api/auth.go",
		old:  `return strings.TrimPrefix(p.Actor, "key:")`,
		new:  `return p.Name`,
	},
	{
		desc: "probes read bodies of clients without a credential", test: "TestRefusedBodyIsNotAwaited",
		file: "api/middleware.go",
		old:  `if publicPaths[r.URL.Path] { // it takes none`,
		new:  `if false && publicPaths[r.URL.Path] { // it takes none`,
	},
	{
		desc: "the restore of an older copy opens a server", test: "TestRestoreOfATimeWithoutCredentials",
		file: "store/restoregeneration.go",
		old:  `if err != nil || n == 0 {`,
		new:  `if err != nil || n >= 0 {`,
	},
	{
		desc: "the key of the environment is sent to another server", test: "TestKeyOfTheEnvironmentIsForItsServer",
		file: "cmd/hostler/target.go",
		old:  `return server == "" || own == "" ||`,
		new:  `return server != own || own == "" ||`,
	},
	{
		desc: "a logout does not wait for a refresh", test: "TestLogoutDuringARefresh",
		file: "cmd/hostler/tokens.go",
		old:  "	unlock, err := lockFile(tokenPath(contexts, name))\n",
		new:  "	unlock, err := lockFile(tokenPath(contexts, name) + \".other\")\n",
	},
	{
		desc: "changes that a failover lost stay in memory", test: "TestLostChanges",
		file: "auth/credential/sync.go",
		old:  `return !s.isShared || len(s.memory.stored) == changed.Count, nil`,
		new:  `return true, nil`,
	},
	{
		desc: "each client of an open server makes an operator", test: "TestFirstCredentialOfAnotherServer",
		file: "auth/credential/keys.go",
		old:  `originOf(p) == origin(user{isLocal: true}) {`,
		new:  `originOf(p) == nil {`,
	},
}
