package main

// parameters are mutations of what a claim has of its request.
var parameters = []mutation{
	{
		desc: "a pattern matches a part of a value", test: "TestParameters",
		file: "workload/parameters.go",
		old:  "return `\\A(?:` + pattern + `)\\z`",
		new:  "return `(?:` + pattern + `)`",
	},
	{
		desc: "a workload names the key of secret parameters", test: "TestParseRejectsParameters",
		file: "workload/parameters_file.go",
		old:  `if name == ParametersKey {`,
		new:  `if name == ParametersKey && false {`,
	},
	{
		desc: "a secret parameter may be as short as any text", test: "TestParameters",
		file: "workload/parameters.go",
		old:  `case p.Secret && len(value) < MinSecretParameter:`,
		new:  `case p.Secret && len(value) < 1:`,
	},
	{
		desc: "a sealed value is of use for every claim", test: "TestSeal",
		file: "claim/seal/seal.go",
		old:  `return []byte(claim + "\x00" + name)`,
		new:  `return []byte(name)`,
	},
	{
		desc: "a key that other users can read is used", test: "TestKeyFile",
		file: "claim/seal/seal.go",
		old:  `mode&0o007 != 0`,
		new:  `mode&0o000 != 0`,
	},
	{
		desc: "a secret parameter is recorded", test: "TestParametersAreChecked",
		file: "claim/terms.go",
		old:  `t.parameters[name], t.sealed[name] = Hidden, sealed`,
		new:  `t.sealed[name] = sealed`,
	},
	{
		desc: "a claim with another parameter is returned", test: "TestRepeatedClaimWithParameters",
		file: "claim/service.go",
		old:  `			err = s.checkSame(r, c)`,
		new:  `			_ = s.checkSame(r, c)`,
	},
	{
		desc: "a request gets the refusal of another", test: "TestConcurrentClaimsWithOtherParameters",
		file: "claim/service.go",
		old:  `isOther || isRefusal(err) ||`,
		new:  `isOther ||`,
	},
	{
		desc: "a lifetime is extended without a bound", test: "TestExtend",
		file: "claim/extend.go",
		old:  `return c.ExpiresAt != nil && !c.ExpiresAt.Add(by).After(latest)`,
		new:  `return c.ExpiresAt != nil`,
	},
	{
		desc: "an extension moves nothing", test: "TestExtend",
		file: "claim/extend.go",
		old:  `		c.ExpiresAt = &at`,
		new:  `		_ = &at`,
	},
	{
		desc: "an ended claim keeps its secrets", test: "TestSQLite",
		file: "store/claims.go",
		old:  `		after.Sealed = nil // no hook needs them`,
		new:  `		after.Sealed = before.Sealed`,
	},
	{
		desc: "a filter by label ignores the value", test: "TestSQLite",
		file: "store/labels.go",
		old:  `" AND value = " + w.arg(value) + ")"`,
		new:  `" AND value <> " + w.arg("\x01"+value) + ")"`,
	},
}
