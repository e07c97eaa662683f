package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/internal/testenv"
)

// promtool runs the program that `make promtool-tool` builds, and returns its output.
func promtool(t *testing.T, input string, args ...string) string {
	t.Helper()
	found, err := filepath.Glob("../../bin/tools/promtool-v*[0-9]")
	require.NoError(t, err)
	if len(found) == 0 {
		testenv.Skip(t, "promtool", "there is no promtool: make promtool-tool")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, found[len(found)-1], args...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "promtool %q: %s", args, out)
	return string(out)
}

// Prometheus accepts the rules, and each alert fires once in their tests.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", monitoring+"alerts.yaml")
	require.Contains(t, promtool(t, "", "test", "rules", monitoring+"alerts_test.yaml"), "SUCCESS")
}

// Prometheus accepts each query of the dashboard.
func TestDashboardQueries(t *testing.T) {
	t.Parallel()
	queries, variables := dashboardQueries(t)
	var rules []map[string]string
	for i, q := range slices.Concat(queries, variables) {
		rules = append(rules, map[string]string{"record": "query:" + strconv.Itoa(i), "expr": q})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out := promtool(t, "", "check", "rules", "--lint-fatal", file)
	require.Contains(t, out, strconv.Itoa(len(rules))+" rules found")
}

// What a server serves follows Prometheus' conventions.
func TestPromtoolChecksMetrics(t *testing.T) {
	t.Parallel()
	promtool(t, monitorServer(t).text, "check", "metrics")
}
