// Package testenv skips a test whose engine, server or program is missing, with
// the reason. The test fails instead where the environment variable REQUIRE, a
// list such as docker,postgres, names it. So CI cannot skip tests unnoticed.
package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// IsRequired reports whether REQUIRE contains name.
func IsRequired(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), name)
}

// Skip skips a test that needs name, with the reason why that is missing. It
// fails the test if REQUIRE contains name.
func Skip(tb testing.TB, name, format string, args ...any) {
	tb.Helper()
	if IsRequired(name) {
		tb.Fatalf("REQUIRE names "+name+": "+format, args...)
	}
	tb.Skipf(format, args...)
}

// SkipShort skips a test that takes minutes when -short is set, unless REQUIRE
// contains name.
func SkipShort(tb testing.TB, name string) {
	tb.Helper()
	if testing.Short() && !IsRequired(name) {
		tb.Skip("takes minutes; skipped with -short")
	}
}
