// Package required says what becomes of a test whose engine, server or program
// is not here: it is skipped with the reason, or fails where the environment's
// REQUIRE, a list such as docker,postgres, names what is missing. So nothing is
// skipped unseen where all of it has to be.
package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// IsRequired says whether REQUIRE names it.
func IsRequired(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), name)
}

// Skip ends a test that cannot be done without what name stands for, with
// the reason why that is not here.
func Skip(tb testing.TB, name, format string, args ...any) {
	tb.Helper()
	if IsRequired(name) {
		tb.Fatalf("REQUIRE names "+name+": "+format, args...)
	}
	tb.Skipf(format, args...)
}

// SkipShort skips a test that takes minutes where -short is given, unless REQUIRE
// names what it tests.
func SkipShort(tb testing.TB, name string) {
	tb.Helper()
	if testing.Short() && !IsRequired(name) {
		tb.Skip("it takes minutes: not with -short")
	}
}
