// Package store keeps Hostler's persistent state in a database, and is the only
// package that contains SQL. SQLite is the default: one file, nothing to
// install. PostgreSQL is supported for installations that run one.
//
// It promises that a change and its events are one transaction, durable when
// the call returns nil and undone when it does not; that event numbers grow in
// the order of commits and have no gaps, so that a follower never misses an
// event; and that the schema itself forbids two live claims of one tenant on a
// workload, or two live claims on one container. The contract is in
// pool.Containers, pool.Workloads, claim.Store and hooks.Recorder, and in the
// suite in storetest, which both databases pass.
//
// Both use the same SQL: parameters are $1, ids are TEXT, times are BIGINT
// nanoseconds from Go's clock, objects are JSON in TEXT, and booleans are 0 or
// 1. The differences are in files named for the database:
//
//   - the types of a schema, and what only one of them can change in it: each
//     migration is one file for both, and marks what differs (migrate.go);
//   - how changes are made: SQLite's go through one goroutine, which commits
//     what has queued up together and pays for one flush to disk
//     (sqlitewriter.go); PostgreSQL's run concurrently, lock the rows that they
//     read to change, and are retried when the connection breaks
//     (postgreswriter.go);
//   - how followers learn of events: an SQLite file has one server, which knows
//     what it commits; servers on PostgreSQL notify each other
//     (postgreslisten.go).
//
// Reads use their own connections and never wait for a write.
package store
