// Package shim is what Hostler and its small program inside every container
// have in common: the program's configuration, the framed protocol, and the
// client's end of it, Session.
//
// The program (cmd/hostler-shim) runs as the first process of a container. It
// starts the workload's own command as its child and runs further commands next
// to it. It can end each command with everything that the command started, and
// it can end and restart the whole container. It implements the contracts of
// runtime.Execer and runtime.Recycler; this package carries them over a byte
// stream that may break at any byte. A command has a run ID. If a connection is
// lost, the Session opens another one and asks for the outcome by that ID, so
// nothing runs twice.
//
// An idle session costs its server one goroutine and about 6 kB, without the
// connection's own buffers: see BenchmarkIdleSessions.
//
// The backends provide the byte stream (see Dial).
package shim
