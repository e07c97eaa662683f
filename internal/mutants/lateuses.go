package main

// lateUses are mutations of what a credential may do after its end, and of what it
// shows of others.
var lateUses = []mutation{
	{
		desc: "a request is served whose credential ended while its body was sent", test: "TestRevokedWhileItsBodyIsSent",
		file: "api/middleware.go",
		old:  `a.readBody, refuseEnded}`,
		new:  `a.readBody}`,
	},
	{
		desc: "a client that reads slowly gets a response of a revoked credential", test: "TestRevokedClientThatReadsSlowly",
		file: "api/response_recorder.go",
		old:  `!rec.last.IsZero() && rec.last.Before(at)`,
		new:  `false && rec.last.Before(at)`,
	},
	{
		desc: "a link is ended as a client without credentials", test: "TestLinkWithKeys",
		file: "api/auth.go",
		old:  ` || p.Actor == linkActor {`,
		new:  ` {`,
	},
	{
		desc: "a link outlives the token that made it", test: "TestLinkExpiresWithItsMaker",
		file: "api/port_links.go",
		old:  `p.Expires.Before(expires)`,
		new:  `false`,
	},
	{
		desc: "a token counts for a key that has its maker's name", test: "TestTokensOfMakersWithOneName",
		file: "auth/credential/token.go",
		old:  `i.Maker, i.Actor = maker.Name, maker.Actor`,
		new:  `i.Maker, i.Actor = maker.Name, "key:"+maker.Name`,
	},
	{
		desc: "a revoked caller ends those that have joined its claim", test: "TestJoinersSurviveRevokedCaller",
		file: "claim/reserve.go",
		old:  `return fmt.Errorf("%w: %w", errCallerCanceled, context.Cause(ctx))`,
		new:  `return context.Cause(ctx)`,
	},
	{
		desc: "tokens of one maker are senders of their own", test: "TestDenialsOfOthersAreNotLost",
		file: "auth/audit/audit.go",
		old:  `return &r.known, a.Name[:i]`,
		new:  `return &r.known, a.Name`,
	},
	{
		desc: "a tenant sees how many claims others have", test: "TestRefusedClaimShowsNothingOfOthers",
		file: "api/quotas.go",
		old:  `!mayReadQuota(ctx, exceeded.Scope)`,
		new:  `false`,
	},
}
