package runtime_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// Each limit of an environment, on both of its sides. An error has no value.
func TestCheckEnvironment(t *testing.T) {
	numbered := func(n, size int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprintf("N%03d", i)] = strings.Repeat("v", size)
		}
		return all
	}
	one := func(name, value string) map[string]string { return map[string]string{name: value} }
	for what, e := range map[string]map[string]string{
		"none": nil, "empty value": one("A", ""), "names": numbered(runtime.MaxEnvironmentNames, 1),
		"lower case": one("_a1", "\n=\x01ü"), "long name": one(strings.Repeat("A", 128), "v"),
		"long value":    one("A", strings.Repeat("v", runtime.MaxEnvironmentValue)),
		"total":         numbered(8, runtime.MaxEnvironmentValue-4),
		"no prefix":     one("HOSTLER", "v"),
		"other linker":  one("LDFLAGS", "v"),
		"path-like":     one("PATHS", "v"),
		"home":          one("HOME", "/data"),
		"lower hostler": one("hostler_x", "v"),
	} {
		require.NoError(t, runtime.CheckEnvironment(e), what)
	}
	for what, e := range map[string]map[string]string{
		"names": numbered(runtime.MaxEnvironmentNames+1, 1), "long name": one(strings.Repeat("A", 129), "secret"),
		"no name": one("", "secret"), "digit": one("1A", "secret"), "equals": one("A=B", "secret"), "dash": one("A-B", "secret"),
		"NUL in a name": one("A\x00", "secret"), "line": one("A\n", "secret"),
		"long value": one("A", strings.Repeat("v", runtime.MaxEnvironmentValue+1)), "total": numbered(8, runtime.MaxEnvironmentValue-3),
		"NUL": one("A", "secret\x00"), "not UTF-8": one("A", "secret\xff"),
		"hostler": one("HOSTLER_TENANT", "secret"), "linker": one("LD_PRELOAD", "secret"), "path": one("PATH", "secret"),
	} {
		err := runtime.CheckEnvironment(e)
		require.ErrorIs(t, err, runtime.ErrBadEnvironment, what)
		require.NotContains(t, err.Error(), "secret", what)
	}
}
