// Package arch is the shape of Hostler as a test: which package may import
// which, where goroutines may be started, what a package may not be called and
// how long a file may be.
//
// The tables in policy.go are a statement of policy. To change them is to
// change the architecture, so a change comes with its reason. The test reads
// the sources, so it sees files for every platform and needs no build. Only what
// a program is linked with is asked of the go command.
package arch
