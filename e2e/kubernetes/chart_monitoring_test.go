package kubernetes

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules and the dashboard are rendered where they are wanted, and whole.
func TestMonitoringValues(t *testing.T) {
	t.Parallel()
	text, err := render(t, "")
	require.NoError(t, err)
	require.NotContains(t, text, "PrometheusRule")
	require.NotContains(t, text, "dashboard")

	const values = "prometheusRule: { enabled: true, labels: { release: prometheus } }\ndashboard: { enabled: true, labels: { grafana_dashboard: yes-please } }"
	_, err = helm(t, values, "lint", "--strict", "--kube-version", kubeVersion, chart, "--values", "-")
	require.NoError(t, err)
	text, err = render(t, values)
	require.NoError(t, err)
	all := objects(t, text)
	rule := findKind(t, all, "PrometheusRule")
	require.Equal(t, "prometheus", lookup(t, rule, "metadata", "labels", "release"))
	require.Equal(t, "hostler", lookup(t, rule, "spec", "groups", 0, "name"))
	rules := lookup(t, rule, "spec", "groups", 0, "rules").([]any)
	require.Greater(t, len(rules), 10)
	require.Contains(t, text, "has waited for {{ $value | humanizeDuration }}", "these templates are Prometheus'")
	var found bool
	for _, o := range all {
		if lookup(t, o, "metadata", "name") != "hostler-dashboard" {
			continue
		}
		found = true
		require.Equal(t, "yes-please", lookup(t, o, "metadata", "labels", "grafana_dashboard"))
		var board struct{ UID string }
		require.NoError(t, json.Unmarshal([]byte(lookup(t, o, "data", "hostler.json").(string)), &board))
		require.Equal(t, "hostler", board.UID)
	}
	require.True(t, found)
	_, err = render(t, "prometheusRule: { enable: true }")
	require.ErrorContains(t, err, "enable")
}
