package main

// metricRows are mutations of the metrics.
var metricRows = []mutation{
	{
		desc: "each server serves the metrics of the records", test: "TestOnlyTheLeaderServesRecords",
		file: "cmd/hostler/metrics_records_linux.go",
		old:  `err != nil || r == nil || !leads {`,
		new:  `err != nil || r == nil {`,
	},
	{
		desc: "a server that does not lead reads all records", test: "TestOnlyTheLeaderServesRecords",
		file: "cmd/hostler/metrics_observed_linux.go",
		old:  `	if !o.leads() {`,
		new:  `	if false {`,
	},
	{
		desc: "each scrape reads the database", test: "TestScrapesShareReads",
		file: "cmd/hostler/metrics_observed_linux.go",
		old:  `age >= 0 && age < observationAge`,
		new:  `age == 0`,
	},
	{
		desc: "a scrape waits for a database that does not answer", test: "TestScrapeWithoutDatabase",
		file: "cmd/hostler/metrics_observed_linux.go",
		old:  `context.WithTimeout(call.Context(), observationTimeout)`,
		new:  `context.WithTimeout(call.Context(), 100*observationTimeout)`,
	},
	{
		desc: "a state without a container has no series", test: "TestRecordsAreMeasured",
		file: "cmd/hostler/metrics_records_linux.go",
		old:  `if state != pool.Destroyed {`,
		new:  `if state != pool.Destroyed && p.Containers[state] > 0 {`,
	},
	{
		desc: "a hook is stuck in its grace period", test: "TestRecordsAreMeasured",
		file: "cmd/hostler/metrics_observed_linux.go",
		old:  `o.hookTimeout(ctx, run)+doctor.RunEndGrace {`,
		new:  `o.hookTimeout(ctx, run) {`,
	},
	{
		desc: "a release that is retried has not failed", test: "TestSQLite", pkg: "store",
		file: "store/measures.go",
		old:  "releaseHasFailed  = `state IN ('releasing', 'release_failed') AND failures > 0`",
		new:  "releaseHasFailed  = `state IN ('release_failed') AND failures > 0`",
	},
	{
		desc: "a claim with a container waits for one", test: "TestSQLite", pkg: "store",
		file: "store/measures.go",
		old:  "waitsForContainer = `state = 'pending' AND container = ''`",
		new:  "waitsForContainer = `container = '' OR failures > 0`",
	},
	{
		desc: "a client chooses the label of its request", test: "TestRequestsAreObserved",
		file: "api/observe.go",
		old:  `} else if pattern := a.patternOf(r); pattern != "" {`,
		new:  `} else if pattern := r.Method + " " + r.URL.Path; pattern != "" {`,
	},
	{
		desc: "a tenant's program chooses the code of a request", test: "TestRequestsAreCounted",
		file: "cmd/hostler/metrics_server_linux.go",
		old:  `	if http.StatusText(status) == "" {`,
		new:  `	if status == 0 && http.StatusText(status) == "" {`,
	},
	{
		desc: "a server without its lease leads", test: "TestMembership",
		file: "membership/member.go",
		old:  `return m.leads.Load() && m.lease.isHeld() }`,
		new:  `return m.leads.Load() }`,
	},
}
