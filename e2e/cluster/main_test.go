package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// An invalid command line changes nothing, and its error names the cause.
func TestInvalidUsage(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"nothing":         {nil, nil, "no verb"},
		"unknown verb":    {[]string{"restart"}, nil, `no verb "restart"`},
		"unknown part":    {[]string{"stop-proxy"}, nil, `no part named "proxy"`},
		"up of something": {[]string{"up", "x"}, nil, "nothing else takes an argument"},
		"load of nothing": {[]string{"load"}, nil, "load takes files"},
		"invalid index":   {[]string{"up"}, map[string]string{"HOSTLER_CLUSTER_INDEX": "256"}, "from 0 to 255"},
		"directory at root": {
			[]string{"down"}, map[string]string{"HOSTLER_CLUSTER_DIR": "/etc"}, "not a directory of the cluster's own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := command(t.Context(), test.args, env(test.env), &out)
			require.ErrorIs(t, err, errInvalidUsage)
			require.ErrorContains(t, err, test.want)
			require.Empty(t, out.String())
		})
	}
}

// Help names every verb and every part.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, command(t.Context(), []string{"help"}, env(nil), &out))
	for verb := range verbs {
		require.Contains(t, out.String(), "\n  "+verb+" ")
	}
	for _, part := range parts {
		require.Contains(t, out.String(), part.name)
	}
}

// skipMissing skips a test without its requirements, or fails it if REQUIRE names
// the cluster.
func skipMissing(t *testing.T, what string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), "kubernetes") {
		t.Fatal("REQUIRE names kubernetes: " + what)
	}
	t.Skip(what)
}
