// Package testenv decides which tests run: whether the machine can run them, and
// whether the run has the time.
//
// A test whose engine, server or program is missing is skipped, with the reason.
// It fails instead where the environment variable REQUIRE, a list such as
// docker,postgres, names it. So CI cannot skip tests unnoticed. DEFER names what
// a run of the gate leaves to the full suite, because nothing that needs it has
// changed.
//
// TIER is the kind of the run. Without it, all that the machine can run does.
//
//   - short, also set by go test -short: the first pass of the gate. What needs
//     an engine or waits long is left out.
//   - gate: what runs before a change is taken. It omits what FullOnly says,
//     and of what Rotates runs one part, by ROTATE, a number that grows from run
//     to run.
//   - full: everything.
//
// A run of the gate and a full one have two passes. In the first, with PASS=1, no
// engine is in reach. The second runs what the first has skipped.
//
// Its waits have no limit other than the deadline of the test binary.
package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// IsRequired reports whether REQUIRE contains name.
func IsRequired(name string) bool { return isListed("REQUIRE", name) }

// isListed reports whether an environment variable, a list, contains name.
func isListed(variable, name string) bool {
	return slices.Contains(strings.Split(os.Getenv(variable), ","), name)
}

// Skip skips a test that needs name, with the reason why that is missing. It
// fails the test if REQUIRE contains name. If DEFER contains it, the test is left
// to the full suite.
func Skip(tb testing.TB, name, format string, args ...any) {
	tb.Helper()
	switch {
	case IsRequired(name):
		tb.Fatalf("REQUIRE names "+name+": "+format, args...)
	case isListed("DEFER", name):
		tb.Skipf(FullSuite+"nothing has changed that needs "+name+" ("+format+")", args...)
	default:
		tb.Skipf(format, args...)
	}
}
