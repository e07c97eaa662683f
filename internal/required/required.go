// Package required says what becomes of a test whose engine, server or program
// is not here: it is skipped with the reason, or fails where the environment's
// REQUIRE, a list such as docker,postgres, names what is missing. So nothing is
// skipped unseen where all of it has to be.
package required

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Named says whether REQUIRE names it.
func Named(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), name)
}

// Missing ends a test that cannot be done without what name stands for, with
// the reason why that is not here.
func Missing(tb testing.TB, name, format string, args ...any) {
	tb.Helper()
	if Named(name) {
		tb.Fatalf("REQUIRE names "+name+": "+format, args...)
	}
	tb.Skipf(format, args...)
}

// Minutes skips a test that takes minutes where -short is given, unless REQUIRE
// names what it tests.
func Minutes(tb testing.TB, name string) {
	tb.Helper()
	if testing.Short() && !Named(name) {
		tb.Skip("it takes minutes: not with -short")
	}
}
