package main

// oidcRows are mutations of the checks of other issuers' tokens, and of logins.
var oidcRows = []mutation{
	{
		desc: "a token for another audience is accepted", test: "TestRefusedClaims",
		file: "auth/oidc/verifier.go",
		old:  `return slices.Contains(i.Audiences, a) }):`,
		new:  `return slices.Contains(i.Audiences, a) || a != "" }):`,
	},
	{
		desc: "a token that has expired is accepted", test: "TestRefusedClaims",
		file: "auth/oidc/verifier.go",
		old:  `case !now.Before(expires.Add(leeway)):`,
		new:  `case !now.Before(expires.Add(leeway)) && !hasEnd:`,
	},
	{
		desc: "a token that is not valid yet is accepted", test: "TestRefusedClaims",
		file: "auth/oidc/verifier.go",
		old:  `case c.has("nbf") && (!hasStart || from.After(now.Add(leeway))):`,
		new:  `case c.has("nbf") && !hasStart && from.After(now.Add(leeway)):`,
	},
	{
		desc: "a report of a logout is a credential", test: "TestRefusedClaims",
		file: "auth/oidc/verifier.go",
		old:  `case c.has("events"):`,
		new:  `case c.has("events.x"):`,
	},
	{
		desc: "errors have parts of the token", test: "TestRefusedSignatures",
		file: "auth/oidc/verifier.go",
		old:  `errors.New("the signature or the form of the token is not valid")`,
		new:  `fmt.Errorf("%w: %s", err, token)`,
	},
	{
		desc: "a token with two subjects is accepted", test: "TestAmbiguousClaims",
		file: "auth/oidc/claims.go",
		old:  `if _, twice := object[text]; twice {`,
		new:  `if _, twice := object[text]; twice && text == "" {`,
	},
	{
		desc: "two claims have a name, one by its dots", test: "TestRefusedClaims",
		file: "auth/oidc/claims.go",
		old:  `twice || len(name) > maxText {`,
		new:  `twice && len(name) > maxText {`,
	},
	{
		desc: "each token with an unknown key causes a request", test: "TestRandomKeysCauseFewRequests",
		file: "auth/oidc/keys.go",
		old:  `due = s.attempt.IsZero() || !now.Before(s.attempt.Add(fetchInterval))`,
		new:  `due = true`,
	},
	{
		desc: "a removed key is accepted", test: "TestRotation",
		file: "auth/oidc/keys.go",
		old:  `s.keys, s.read = slices.Clone(got.keys), now`,
		new:  `s.keys, s.read = append(slices.Clone(got.keys), s.keys...), now`,
	},
	{
		desc: "a key of one algorithm verifies another", test: "TestAlgorithmsAndAudiences",
		file: "auth/oidc/keys.go",
		old:  ` && (key.Algorithm == "" || key.Algorithm == algorithm)`,
	},
	{
		desc: "an outage of the issuer refuses tokens of known keys", test: "TestOutage",
		file: "auth/oidc/keys.go",
		old: `	if err != nil {
		return
	}
	age := got.age`,
		new: `	age := got.age`,
	},
	{
		desc: "the bearer token is sent to every host", test: "TestKeysElsewhere",
		file: "auth/oidc/source.go",
		old:  ` || u.Scheme != r.URL.Scheme || u.Host != r.URL.Host {`,
		new:  ` || u.Scheme == "" {`,
	},
	{
		desc: "redirects of issuers are followed", test: "TestBadIssuers",
		file: "auth/oidc/source.go",
		old:  `return http.ErrUseLastResponse`,
		new:  `return nil`,
	},
	{
		desc: "a key is sent along with a redirect", test: "TestRedirectsGetNoKey",
		file: "client/options.go",
		old:  `r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {`,
		new:  `r.URL.Scheme != first.Scheme {`,
	},
	{
		desc: "--context takes the key of the environment", test: "TestContextPrecedence",
		file: "cmd/hostler/target.go",
		old:  `getenv = func(string) string { return "" }`,
		new:  `getenv = os.Getenv`,
	},
	{
		desc: "a login is used for another server", test: "TestLogin",
		file: "cmd/hostler/tokens.go",
		old:  `if s.Server != t.of.Server || s.Issuer`,
		new:  `if s.Issuer`,
	},
	{
		desc: "a refresh token is used twice", test: "TestLoginIsRefreshed",
		file: "cmd/hostler/tokens.go",
		old:  `if err != nil || s.isValidAt(t.clock()) { // another`,
		new:  `if err != nil { // another`,
	},
}
