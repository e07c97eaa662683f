package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Values with which the server could do nothing are refused when it starts.
func TestInvalidValues(t *testing.T) {
	check := func(args ...string) error {
		var c serveConfig
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		c.flags(f)
		require.NoError(t, f.Parse(args))
		return c.check()
	}
	require.NoError(t, check())
	require.NoError(t, check("--max-wait-timeout", "1ms", "--retention", "0", "--trusted-proxies", "10.1.2.3/8,2001:db8::/32"))
	for _, invalid := range []string{"--max-wait-timeout=0", "--max-wait-timeout=-1s", "--unresponsive-timeout=0", "--retention=-1s", "--trusted-proxies=10.0.0.1", "--trusted-proxies=::ffff:10.0.0.0/104"} {
		err := check(invalid)
		flag, _, _ := strings.Cut(invalid, "=")
		require.ErrorContains(t, err, flag+" ")
		require.ErrorContains(t, err, "it takes")
	}
}

// A list of the config file is that of a flag that may be repeated, and of no other.
func TestConfigLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	read := func(text string) (*serveConfig, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		var c serveConfig
		cmd := newServeCmd()
		cmd.ResetFlags()
		c.flags(cmd.Flags())
		require.NoError(t, cmd.Flags().Set("config", file))
		return &c, fillFlags(cmd, func(string) string { return "" })
	}
	c, err := read("state-dirs: [/a, '/b,c']\nhooks-allow: x,y\nretention: 1h\nlisten:\nhooks-deny: []\n")
	require.NoError(t, err)
	require.Equal(t, []string{"/a", "/b,c"}, c.stateDirs)
	require.Equal(t, []string{"x", "y"}, c.hooksAllow)
	require.Empty(t, c.hooksDeny)
	_, err = read("listen: [a, b]\n")
	require.ErrorContains(t, err, "listen: it takes one value, not a list")
	_, err = read("state-dirs: {a: b}\n")
	require.Error(t, err)
}
