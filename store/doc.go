// Package store keeps all that Hostler must remember in a database, and is the
// only package that knows SQL. SQLite is the default: one file, nothing to
// install.
//
// It promises that a change and the events that tell of it are one
// transaction, durable when the call returns nil and undone when it does not;
// that events have numbers which grow in the order of commits, so that a
// follower never misses one; and that the schema itself forbids two live
// claims of one tenant on a workload, or on one container. The contract is
// what pool.Containers, pool.Workloads, claim.Store and hooks.Recorder say,
// and the suite in storetest.
//
// All writes go through one goroutine (writer.go), which runs whatever has
// queued up in one transaction and pays for one flush to disk. Reads go to a
// pool of their own and never wait for a write.
//
// One text of SQL is meant for more than one database: parameters are $1, ids
// TEXT, times BIGINT nanoseconds that Go took, objects JSON in TEXT, truth 0
// or 1. Only the migrations differ.
package store
