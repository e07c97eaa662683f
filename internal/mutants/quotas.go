package main

// quotas are mutations of what tenants, keys and workloads may use.
var quotas = []mutation{
	{
		desc: "one claim more than a quota permits is added", test: "TestSQLiteQuotaRace", pkg: "store",
		file: "quota/quota.go",
		old:  `ok && u.Claims >= limit`,
		new:  `ok && u.Claims > limit`,
	},
	{
		desc: "claims of several servers count the same", test: "TestPostgresQuotaRace",
		file: "store/postgressession.go",
		old: `func (s *postgresSession) lockQuota(scope string) error {
	return s.execLater(` + "`SELECT pg_advisory_xact_lock($1)`" + `, s.schema.key("quota", scope))`,
		new: `func (s *postgresSession) lockQuota(scope string) error {
	return s.execLater(` + "`SELECT pg_sleep(0), $1::bigint`" + `, s.schema.key("quota", scope))`,
	},
	{
		desc: "a token has a quota of its own", test: "TestKeyOf",
		file: "quota/quota.go",
		old: `		actor = token
		// A tenant`,
		new: `		break
		// A tenant`,
	},
	{
		desc: "the rate counts all claims of a tenant", test: "TestSQLite", pkg: "store",
		file: "store/quotas.go",
		old:  `WHERE COLUMN || '' = $1 AND created_at > $2` + "`},",
		new:  `WHERE COLUMN || '' = $1 AND created_at <= $2` + "`},",
	},
	{
		desc: "a refused request costs a request of the key", test: "TestRequestsAreLimited",
		file: "quota/requests.go",
		old: `		for _, t := range taken {
			t.CancelAt(now)
		}
`,
	},
	{
		desc: "a sender resets its limit by filling the table", test: "TestRequestsOfManySenders",
		file: "quota/requests.go",
		old:  `if b.limiter.TokensAt(now) >= float64(b.limiter.Burst()) {`,
		new:  `if b != nil {`,
	},
	{
		desc: "a client that disconnects keeps a new limit from being read", test: "TestRequestsFollowOverrides",
		file: "quota/requests.go",
		old:  `context.WithTimeout(context.WithoutCancel(ctx), pollTimeout)`,
		new:  `context.WithTimeout(ctx, pollTimeout)`,
	},
	{
		desc: "a tenant reads the quota of another one", test: "TestQuotas",
		file: "api/quotas.go",
		old:  `return scopeOf(ctx).Includes(s.Name, "", "")`,
		new:  `return true`,
	},
	{
		desc: "requests through links have no quota", test: "TestRequestsBeyondQuota",
		file: "api/quotas.go",
		old:  `		from.Tenant = c.Tenant`,
		new:  `		_ = c`,
	},
}
