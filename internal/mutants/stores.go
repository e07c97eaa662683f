package main

// stores are mutations of package store: how records become rows.
var stores = []mutation{
	{
		desc: "the file of a revision that is replaced is lost", test: "TestSQLite",
		file: "store/workloads.go",
		old:  `err == nil && len(replaced.Source) == 0 {`,
		new:  `err == nil {`,
	},
	{
		desc: "a container is added to a workload that was removed", test: "TestSQLite",
		file: "store/containers.go",
		old: `	if err := checkRevision(t, c.Workload, c.Revision); err != nil {
		return err
	}
`,
		new: "",
	},
	{
		desc: "a container is added of a revision whose file is gone", test: "TestSQLite",
		file: "store/containers.go",
		old:  `checkRevision(t, c.Workload, c.Revision)`,
		new:  `checkExists(t, c.Workload)`,
	},
	{
		desc: "a container is added of another workload's revision", test: "TestSQLite",
		file: "store/workloads.go",
		old:  `JOIN revisions ON revisions.workload = workloads.id`,
		new:  `JOIN revisions ON true`,
	},
	{
		desc: "a revision is removed while a container of it is added", test: "TestPostgres",
		file: "store/prune.go",
		old: `		if err := t.lockWorkload(workload); err != nil { // no container of the revision is added concurrently
			return err
		}
`,
	},
	{
		desc: "a container is added while its workload is removed", test: "TestPostgres",
		file: "store/containers.go",
		old: `	if err := t.lockWorkload(c.Workload); err != nil { // two concurrent calls would count the same
		return err
	}
`,
	},
	{
		desc: "a pool whose workload was applied again just after its removal stays empty", test: "TestWorkloadAppliedAgainBeforeTheRefusal",
		file: "pool/filler.go", pkg: "pool",
		old: `			f.Wake(t.Key) // if it was applied again`,
		new: `			// if it was applied again`,
	},
	{
		desc: "the record of a container of a workload that was removed is tried again", test: "TestWorkloadRemovedBeforeItsContainer",
		file: "pool/filler.go", pkg: "pool",
		old: `	if err == nil || errors.Is(err, ErrWorkloadNotFound) {
		return nil`,
		new: `	if err == nil {
		return nil`,
	},
	{
		desc: "an update writes what never changes, and not what does", test: "TestEveryFieldIsStored",
		file: "store/records.go",
		old: `		if column.use == mutable {
			add(&sets, column.name)`,
		new: `		if column.use == immutable {
			add(&sets, column.name)`,
	},
	{
		desc: "an upsert overwrites when a record was created", test: "TestSQLite",
		file: "store/workloads.go",
		old:  `	{name: "created_at", use: immutable, field: func(r *pool.Record) any { return (*nanos)(&r.CreatedAt) }},`,
		new:  `	{name: "created_at", field: func(r *pool.Record) any { return (*nanos)(&r.CreatedAt) }},`,
	},
	{
		desc: "a field of a claim is stored nowhere", test: "TestEveryFieldIsStored",
		file: "store/claims.go",
		old: `	{name: "synced_at", field: func(c *claim.Claim) any { return nullNanos{&c.SyncedAt} }},
`,
		new: `	{name: "synced_at", field: func(c *claim.Claim) any { return nullNanos{&c.RetryAt} }},
`,
	},
	{
		desc: "a claim's fence is not greater than that of an earlier claim when the clock was set back", test: "TestClockSetBackKeepsOrder",
		file: "store/claims.go",
		old:  `AND fence >= $fence`,
		new:  `AND fence < 0 AND fence >= $fence`,
	},
	{
		desc: "text that no database accepts is stored as it is", test: "TestSQLite",
		file: "store/records.go",
		old:  `func (t *text) Value() (driver.Value, error) { return sanitizeText(string(*t)), nil }`,
		new:  `func (t *text) Value() (driver.Value, error) { return string(*t), nil }`,
	},
	{
		desc: "a migration has SQLite's types for PostgreSQL", test: "TestMigrationFiles",
		file: "store/postgres.go",
		old:  "types: sqlTypes{Key: `TEXT COLLATE \"C\"`, Int: \"BIGINT\", Blob: \"BYTEA\"},",
		new:  `types: sqliteDialect.types,`,
	},
	{
		desc: "a claim that may get only its tenant's own container gets another", test: "TestSQLite",
		file: "store/reservation.go",
		old:  `if args == nil || r.OwnOnly && p.source != claim.Affinity {`,
		new:  `if args == nil {`,
	},
}
