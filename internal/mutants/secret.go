package main

// secrets are about what keeps secrets where they belong.
var secrets = []mutation{
	{
		desc: "a program gets the API key",
		file: "api/port_headers.go", test: "TestPortProxyCredentials",
		old: `h.Del("Authorization")`,
		new: `h.Del("X-Unused")`,
	},
	{
		desc: "a key is sent along with a redirect",
		file: "client/options.go", test: "TestRedirectsGetNoKey",
		old: "r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {",
		new: "r.URL.Scheme != first.Scheme {",
	},
	{
		desc: "a secret goes to any host",
		file: "hooks/request/secrets.go", test: "TestSecretLimit",
		old: "matches(h, hostName(host))",
		new: `h != "-"`,
	},
	{
		desc: "a secret is in the environment of a process",
		file: "hooks/variables/template.go", test: "TestText",
		old: "!ok || environment.check(p, v.Class) != nil {",
		new: "!ok {",
	},
	{
		desc: "a secret parameter is recorded",
		file: "claim/terms.go", test: "TestParametersAreChecked",
		old: "t.parameters[name], t.sealed[name] = Hidden, sealed",
		new: "t.sealed[name] = sealed",
	},
	{
		desc: "an ended claim keeps its secrets",
		file: "store/claims.go", test: "TestSQLite",
		old: "after.Sealed = nil",
		new: "after.Sealed = before.Sealed",
	},
	{
		desc: "the output of a hook with secret parameters is shown while it runs",
		file: "cmd/hostler/liveoutput_linux.go", test: "TestLiveOutput",
		old: "err != nil || len(c.Sealed) > 0 {",
		new: "err != nil || len(c.Sealed) < 0 {",
	},
	{
		desc: "viewers and tenants read the output of containers in events",
		file: "api/redact.go", test: "TestLogReaders",
		old: "eventLogs[e.Type], v.logs",
		new: "eventLogs[e.Type], v.output",
	},
	{
		desc: "secrets of hooks are kept",
		file: "pool/output.go", test: "TestOutputOfFailedCheck",
		old: "return r.redact(text)",
		new: "return text",
	},
	{
		desc: "the response is not redacted",
		file: "hooks/request/response.go", test: "TestResultsHaveNoSecrets",
		old: "text = storable(x.redactor.Redact(text))",
		new: "text = storable(text)",
	},
	{
		desc: "the response is cut before secrets are replaced",
		file: "hooks/request/response.go", test: "TestRedactBeforeCut",
		old: "own.redact(text, true)",
		new: "own.redact(text, false)",
	},
	{
		desc: "a token is not redacted",
		file: "hooks/request/tokens.go", test: "TestTokenCache",
		old: "t.redactor.Add(token.Value)",
		new: "",
	},
	{
		desc: "the access log has keys",
		file: "api/middleware.go", test: "TestMemoryIsNotLogged",
		old: "cmp.Or(rec.path, loggedPath(r.URL.Path)),",
		new: "cmp.Or(rec.path, r.URL.Path),",
	},
	{
		desc: "state is stored without the server's keys",
		file: "snapshot/repository.go", test: "TestUploadsAreEncrypted",
		old: "Keys: s.keys}",
		new: "Keys: nil}",
	},
	{
		desc: "a pack of another owner is decrypted",
		file: "snapshot/repository.go", test: "TestForgedOwnerIsNotDecrypted",
		old: `Owner: h.Workload + "/" + h.Tenant, `,
		new: "",
	},
}
