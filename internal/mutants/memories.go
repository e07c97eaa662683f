package main

// memories are mutations of package memory and of what serves it.
var memories = []mutation{
	{
		desc: "a condition is met by every version", test: "TestMemoryConditions", pkg: "api",
		file: "memory/memory.go",
		old:  `case condition == nil, *condition == version,`,
		new:  `case condition == nil, *condition != 0,`,
	},
	{
		desc: "a value that readers cannot read within others is kept", test: "TestValues", pkg: "memory",
		file: "internal/jsonvalue/jsonvalue.go",
		old:  `	if depth(compact.Bytes()) > MaxDepth {`,
		new:  `	if depth(compact.Bytes()) > 10*MaxDepth {`,
	},
	{
		desc: "a bracket in a text counts as a level", test: "TestCompact",
		file: "internal/jsonvalue/jsonvalue.go",
		old: `		case inString:
		case c == '{'`,
		new: `		case c == '{'`,
	},
	{
		desc: "an escaped quote ends a text", test: "TestCompact",
		file: "internal/jsonvalue/jsonvalue.go",
		old:  `			i++ // what follows ends no string`,
	},
	{
		desc: "a value is printed with other characters", test: "TestAskValuesAreTheSame",
		file: "cmd/hostler-shim/ask.go",
		old:  `jsonvalue.Escaped(bytes.TrimSpace(answer), isControl)`,
		new:  `jsonvalue.Escaped(bytes.TrimSpace(answer), func(rune) bool { return false })`,
	},
	{
		desc: "a key that is not UTF-8 becomes another key", test: "TestAskBodies",
		file: "cmd/hostler-shim/ask.go",
		old:  `return !utf8.ValidString(a) })`,
		new:  `return utf8.RuneCountInString(a) < 0 })`,
	},
	{
		desc: "a value that must exist need not", test: "TestMemoryConditions", pkg: "api",
		file: "memory/memory.go",
		old:  ` && version != 0:`,
		new:  `:`,
	},
	{
		desc: "a value that does not grow is refused", test: "TestSQLite", pkg: "store",
		file: "memory/memory.go",
		old:  ` && after.Bytes > before.Bytes`,
	},
	{
		desc: "the number of keys has no bound", test: "TestSQLite", pkg: "store",
		file: "memory/memory.go",
		old:  `after.Keys > q.Keys && after.Keys > before.Keys || `,
	},
	{
		desc: "a key may leave its path", test: "TestKeys",
		file: "memory/memory.go",
		old:  `case ".", "..":`,
		new:  `case ".":`,
	},
	{
		desc: "a key may have an empty part", test: "TestKeys",
		file: "memory/memory.go",
		old: `		case "":
			return`,
		new: `		case "\x00":
			return`,
	},
	{
		desc: "a key may have control characters", test: "TestKeys",
		file: "memory/memory.go",
		old:  `case strings.ContainsFunc(text, unicode.IsControl):`,
		new:  `case strings.ContainsFunc(text, unicode.IsControl) && text == "\x00":`,
	},
	{
		desc: "the length of a key is that of its bytes", test: "TestKeys",
		file: "memory/memory.go",
		old:  `utf8.RuneCountInString(text) > MaxKey:`,
		new:  `len(text) > MaxKey:`,
	},
	{
		desc: "a value need not be UTF-8", test: "TestValues", pkg: "memory",
		file: "internal/jsonvalue/jsonvalue.go",
		old:  `if !utf8.Valid(value) {`,
		new:  `if !utf8.Valid(nil) {`,
	},
	{
		desc: "the error of a value quotes it", test: "TestValues", pkg: "memory",
		file: "internal/jsonvalue/jsonvalue.go",
		old: `	if json.Compact(&compact, value) != nil {
		return nil, errors.New("is not JSON")`,
		new: `	if err := json.Compact(&compact, value); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)`,
	},
	{
		desc: "a claim may put without a bound", test: "TestChangesAreLimited",
		file: "memory/service.go",
		old:  `if !s.limiter.allow(c.Claim, time.Now()) {`,
		new:  `if s.limiter.allow(c.Claim, time.Now()); false {`,
	},
	{
		desc: "what is refused counts", test: "TestChangesAreLimited",
		file: "memory/limiter.go",
		old: `	if full.Sub(now) > changeBurst*changeInterval {
		return false
	}
	if l.full == nil {
		l.full = map[string]time.Time{}
	}
	l.full[claim] = full
`,
		new: `	if l.full == nil {
		l.full = map[string]time.Time{}
	}
	l.full[claim] = full
	if full.Sub(now) > changeBurst*changeInterval {
		return false
	}
`,
	},
	{
		desc: "the limiter forgets no claim", test: "TestChangesAreLimited",
		file: "memory/limiter.go",
		old:  `delete(l.full, id)`,
		new:  `_ = id`,
	},
	{
		desc: "the sweep ends after one part", test: "TestRunSweeps",
		file: "memory/service.go",
		old:  `err != nil || !more {`,
		new:  `err != nil || more {`,
	},
	{
		desc: "a key is a single segment of a path", test: "TestMemoryKeysInPaths",
		file: "api/memory.go",
		old:  `"/memory/{key...}"`,
		new:  `"/memory/{key}"`,
	},
	{
		desc: "the access log has keys", test: "TestMemoryIsNotLogged",
		file: "api/middleware.go",
		old:  `cmp.Or(rec.path, loggedPath(r.URL.Path)),`,
		new:  `cmp.Or(rec.path, r.URL.Path),`,
	},
	{
		desc: "an ETag is ignored", test: "TestMemoryConditions",
		file: "api/memory.go",
		old:  `	if c.IfMatch != "" {`,
		new:  `	if c.IfMatch == "*" {`,
	},
	{
		desc: "a put whose response was lost is repeated", test: "TestMemoryChangesAreNotRetried",
		file: "client/memory.go",
		old:  `, noRetry: true`,
	},
	{
		desc: "requests are removed only if they are of the last claim", test: "TestUnusedRequestsAreRemoved",
		file: "store/memoryends.go",
		old: `			SELECT min(claim) FROM memory_requests
`,
		new: `			SELECT max(claim) FROM memory_requests
`,
	},
	{
		desc: "the sweep reads all requests for each claim", test: "TestHotQueriesUseIndexes",
		file: "store/memoryends.go",
		old:  `WHERE claim > requesters.claim)`,
		new:  `WHERE claim || '' > requesters.claim)`,
	},
	{
		desc: "the requests of live claims are removed", test: "TestUnusedRequestsAreRemoved",
		file: "store/memoryends.go",
		old:  `claims.id = requesters.claim AND claims.`,
		new:  `claims.id = '' AND claims.`,
	},
}

// memoryRows are mutations of how the store keeps memory.
var memoryRows = []mutation{
	{
		desc: "a claim that has ended uses memory", test: "TestSQLite",
		file: "store/memory.go",
		old:  `	case !a.inUse:`,
		new:  `	case a.state == "":`,
	},
	{
		desc: "a hook before or after the claim has no memory", test: "TestSQLite",
		file: "store/memory.go",
		old:  `claims.state = 'active' OR claims.state IN ('pending', 'releasing') AND`,
		new:  `claims.state = 'active' OR claims.state = 'releasing' AND`,
	},
	{
		desc: "a claim uses memory between its hooks and its end", test: "TestSQLite",
		file: "store/memory.go",
		old:  ` AND runs.` + "` + runningCondition + `" + ` AND runs.event = '')`,
		new:  `)`,
	},
	{
		desc: "every workload's memory is shared", test: "TestSQLite",
		file: "store/memory.go",
		old:  ` AND workloads.shared_memory = 1)`,
		new:  `)`,
	},
	{
		desc: "tenants of a workload share their memory", test: "TestSQLite",
		file: "store/memory.go",
		old:  `s.tenant = CASE $2 WHEN 'workload' THEN '' ELSE claims.tenant END`,
		new:  `s.tenant = CASE $2 WHEN 'workload' THEN '' ELSE s.tenant END`,
	},
	{
		desc: "what has ended is read", test: "TestSQLite",
		file: "store/memory.go",
		old:  `ELSE '' END AND s.ended = 0`,
		new:  `ELSE '' END`,
	},
	{
		desc: "a tenant's values are there until they are removed", test: "TestTenantMemoryRetention",
		file: "store/memory.go",
		old:  `s.ends_at > claims.created_at)`,
		new:  `s.ends_at > 1)`,
	},
	{
		desc: "a put brings a tenant's old values back", test: "TestTenantMemoryRetention",
		file: "store/memory.go",
		old:  `level = 'tenant' AND ends_at > 0 AND ends_at <= $4 FROM`,
		new:  `level = 'tenant' AND ends_at > $4 AND ends_at <= $4 FROM`,
	},
	{
		desc: "versions of a workload's next values are those of its last", test: "TestSQLite",
		file: "store/memory.go",
		old:  `version := t.now.UnixMilli()`,
		new:  `version := int64(0)`,
	},
	{
		desc: "a deleted value leaves its bytes in the quota", test: "TestSQLite",
		file: "store/memory.go",
		old:  `s.save(t, -1, -int64(len(c.Key))-size, deleteEntry`,
		new:  `s.save(t, -1, -size, deleteEntry`,
	},
	{
		desc: "a claim that outlives its workload adds to the next one", test: "TestSQLite",
		file: "store/memory.go",
		old:  `err := checkExists(t, a.workload); err != nil {`,
		new:  `err := checkExists(t, a.workload); err != nil && t == nil {`,
	},
	{
		desc: "a prefix is a pattern", test: "TestSQLite",
		file: "store/memory.go",
		old:  `substr(e.key, 1, length($4)) = $4`,
		new:  `e.key LIKE $4 || '%'`,
	},
	{
		desc: "the end of a claim does not end what it holds", test: "TestSQLite",
		file: "store/memoryends.go",
		old:  `CASE level WHEN 'claim' THEN 1 ELSE 0 END, ends_at = $4`,
		new:  `0, ends_at = $4`,
	},
	{
		desc: "a new workload of the same id has the old one's memory", test: "TestSQLite",
		file: "store/workloads.go",
		old: `		if err := t.execLater(endWorkloadMemory, id); err != nil {
			return err
		}
`,
	},
	{
		desc: "what a tenant holds ends during its claim", test: "TestTenantMemoryRetention",
		file: "store/memoryends.go",
		old:  "AND ends_at < $1 AND NOT` + hasLiveClaim",
		new:  "AND ends_at < $1`",
	},
	{
		desc: "what a claim of an older server has left waits for the tenant's last claim", test: "TestMemoryOfOlderServers",
		file: "store/memoryends.go",
		old:  `memory_scopes.claim IN ('', claims.id) AND `,
	},
	{
		desc: "what an older server has left is kept", test: "TestMemoryOfOlderServers",
		file: "store/memoryends.go",
		old:  `level IN ('claim', 'tenant') AND ends_at = 0 AND NOT`,
		new:  `level IN ('claim', 'tenant') AND ends_at < 0 AND NOT`,
	},
	{
		desc: "values that are shared again end", test: "TestUnsharedMemoryRetention",
		file: "store/memoryends.go",
		old: `	if err := t.execLater(keepShared); err != nil {
		return err
	}
`,
	},
	{
		desc: "values that are no longer shared are kept", test: "TestUnsharedMemoryRetention",
		file: "store/memoryends.go",
		old:  `level = 'workload' AND ends_at = 0 AND NOT`,
		new:  `level = 'workload' AND ends_at < 0 AND NOT`,
	},
	{
		desc: "all values of a claim are removed in one change", test: "TestRemoveMemoryInParts",
		file: "store/memoryends.go",
		old:  `ORDER BY key LIMIT $2)`,
		new:  `ORDER BY key LIMIT $2 + 50)`,
	},
	{
		desc: "what ends is looked for in the memory of all tenants", test: "TestHotQueriesUseIndexes",
		file: "store/memoryends.go",
		old:  `level IN ('claim', 'tenant', 'workload') AND `,
	},
	{
		desc: "the memory that ends has no index", test: "TestHotQueriesUseIndexes",
		file: "store/migrations/00029_listed_waits.sql", pkg: "store",
		old: `CREATE INDEX memory_scopes_ends ON memory_scopes (level, ends_at) WHERE ended = 0;`,
	},
}
