package main

// breakers are mutations of how failures to create containers are counted.
var breakers = []mutation{
	{
		desc: "containers that fail together count as consecutive failures", test: "TestBreakerCountsABurstOnce",
		file: "pool/breaker.go",
		old: `	if b.isOpen(now) {
		return true
	}
`,
	},
	{
		desc: "the late failure of a former revision erases the failures of the current one", test: "TestBreakerIgnoresFormerRevision",
		file: "pool/breaker.go",
		old: `	if b.Revision != revision {
		return false
	}
`,
		new: `	*b = b.of(revision)
`,
	},
	{
		desc: "the late success of a former revision ends the backoff of the current one", test: "TestLateSuccessOfFormerRevision",
		file: "pool/filler.go",
		old:  `if b = b.of(c.Revision); b.Failures`,
		new:  `if b.Failures`,
	},
	{
		desc: "a recovery ends the backoff of a revision that became current in the meantime", test: "TestLateSuccessOfFormerRevision",
		file: "pool/filler.go",
		old:  ` || b.Revision != read.Revision`,
	},
	{
		desc: "a new revision begins with the failures of the former one", test: "TestSQLite",
		file: "store/breakers.go",
		old:  `if b.Revision != current {`,
		new:  `if b.Revision == "" {`,
	},
	{
		desc: "a clock that was set back keeps a pool empty", test: "TestBreakerAfterClockWasSetBack",
		file: "pool/breaker.go",
		old:  ` && b.RetryAt.Before(now.Add(2*maxBackoff))`,
	},
	{
		desc: "the failures of a pool are not on record", test: "TestFailuresSurviveRestart",
		file: "store/breakers.go", pkg: "pool",
		old: `		return execLater(t, putBreaker, &b)`,
		new: `		_ = putBreaker
		return nil`,
	},
	{
		desc: "the failures of a deleted workload stay on record", test: "TestSQLite",
		file: "store/breakers.go",
		old:  `if b.Failures == 0 || isDeleted {`,
		new:  `if b.Failures == 0 {`,
	},
}
