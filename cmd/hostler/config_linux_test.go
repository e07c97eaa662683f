package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Times with which the server could do nothing are refused when it starts.
func TestInvalidTimes(t *testing.T) {
	check := func(args ...string) error {
		var c serveConfig
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		c.flags(f)
		require.NoError(t, f.Parse(args))
		return c.check()
	}
	require.NoError(t, check())
	require.NoError(t, check("--max-wait-timeout", "1ms", "--retention", "0"))
	for _, invalid := range []string{"--max-wait-timeout=0", "--max-wait-timeout=-1s", "--unresponsive-timeout=0", "--retention=-1s"} {
		err := check(invalid)
		flag, _, _ := strings.Cut(invalid, "=")
		require.ErrorContains(t, err, flag+" ")
		require.ErrorContains(t, err, "it takes")
	}
}
