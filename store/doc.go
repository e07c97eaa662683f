// Package store keeps all that Hostler must remember in a database, and is the
// only package that knows SQL. SQLite is the default: one file, nothing to
// install. PostgreSQL is there for those who run one.
//
// It promises that a change and the events that tell of it are one
// transaction, durable when the call returns nil and undone when it does not;
// that events have numbers which grow in the order of commits and have no
// gaps, so that a follower never misses one; and that the schema itself
// forbids two live claims of one tenant on a workload, or on one container.
// The contract is what pool.Containers, pool.Workloads, claim.Store and
// hooks.Recorder say, and the suite in storetest, which both databases pass.
//
// One text of SQL serves both: parameters are $1, ids TEXT, times BIGINT
// nanoseconds that Go took, objects JSON in TEXT, truth 0 or 1. What differs
// has a file name that says so:
//
//   - migrations, which make the same tables;
//   - how changes are made: SQLite's go through one goroutine, which commits
//     what has queued up together and pays for one flush to disk
//     (sqlitewriter.go); PostgreSQL's go on at once, lock the rows that they
//     read to change, and are made again when the connection breaks
//     (postgreswriter.go);
//   - how followers hear of events: SQLite's file has one server, which knows
//     what it commits; those of PostgreSQL announce theirs to each other
//     (postgreslisten.go).
//
// Reads go to connections of their own and never wait for a write.
package store
