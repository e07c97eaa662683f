// Package shim is what Hostler and its small program inside every container
// have in common: the program's settings, the framed protocol that both speak,
// and the client's end of it, Session.
//
// The program (cmd/hostler-shim) runs as the first process of a container. It
// starts the workload's own command as its child, runs further commands beside
// it, ends each with everything it started, and can end and restart the whole.
// What it promises is the contract of runtime.Execer and runtime.Recycler; this
// package carries it over a byte stream that may break at any byte. A command
// has a key: a session that is lost in the middle is opened again and asks for
// the outcome by that key, so nothing is ever run twice.
//
// A session that nobody uses costs its server one goroutine and about 6 kB, the
// connection's own buffers not counted: BenchmarkIdleSessions.
//
// How the byte stream comes about is left to the backends (see Dial).
package shim
