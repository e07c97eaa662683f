package main

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/api"
)

const monitoring = "../../deploy/monitoring/"

// monitored is what a server serves.
type monitored struct {
	text   string              // of a scrape
	types  map[string]string   // by metric, of those in the scrape
	labels map[string][]string // by metric, also of those that were never counted
}

var (
	descText  = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: ".+", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	labelName = regexp.MustCompile(`([a-z_]+)=`)
	typeLine  = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
)

// monitorServer scrapes a server with one workload, whose runtime has no container.
func monitorServer(t *testing.T) monitored {
	t.Helper()
	self, err := os.Executable() // no container is created, so that any program will do
	require.NoError(t, err)
	c := serveConfig{data: t.TempDir(), runtime: "process", store: sqlite, shim: self}
	s, err := wire(t.Context(), c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.closeAll()) }()
	handler := api.New(s.apiOptions(c.data))
	connections, err := c.listeners.newConnections()
	require.NoError(t, err)
	s.metrics.observeConnections(connections)
	_, err = s.pools.Apply(t.Context(), []byte("id: web\nimage: none\ncommand: [sleep, 1h]\npool: { min_idle: 0, max_size: 3 }\n"), "web.yaml", "")
	require.NoError(t, err)
	get := func() string {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil)
		r.RemoteAddr = "127.0.0.1:1"
		handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	get() // so that the next scrape has a request
	m := monitored{text: get(), types: map[string]string{}, labels: map[string][]string{}}
	for _, match := range typeLine.FindAllStringSubmatch(m.text, -1) {
		m.types[match[1]] = match[2]
	}
	descs := make(chan *prometheus.Desc, 1000)
	for _, c := range s.metrics.registry.collectors {
		c.Describe(descs)
	}
	close(descs)
	for d := range descs {
		match := descText.FindStringSubmatch(d.String())
		require.NotNil(t, match, d.String())
		var labels []string
		for _, l := range labelName.FindAllStringSubmatch(match[2], -1) {
			labels = append(labels, l[1])
		}
		if match[3] != "" {
			labels = append(labels, strings.Split(match[3], ",")...)
		}
		slices.Sort(labels)
		m.labels[match[1]] = labels
	}
	return m
}

// isOfLibrary reports whether a metric is one of Prometheus' library, which the page
// names by their prefixes.
func isOfLibrary(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
}

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{([a-z_,]+)\\})?` \\| (\\w+) \\| (each server|leader) \\| .+ \\|$")

// docs/metrics.md has exactly the metrics that a server serves, with their types and
// labels, and which of them only the leader has.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	m := monitorServer(t)
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	documented := map[string][]string{}
	var ofLeader []string
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		name, labels, kind := row[1], row[2], row[3]
		require.NotContains(t, documented, name, "twice")
		documented[name] = nil
		if labels != "" {
			documented[name] = strings.Split(labels, ",")
			slices.Sort(documented[name])
		}
		if served := m.types[name]; served != "" {
			require.Equal(t, served, kind, name)
		}
		if row[4] == "leader" {
			ofLeader = append(ofLeader, name)
		}
	}
	served := maps.Clone(m.labels)
	maps.DeleteFunc(served, func(name string, _ []string) bool { return isOfLibrary(name) })
	require.Equal(t, served, documented)
	for name := range m.types {
		if !isOfLibrary(name) {
			require.Contains(t, documented, name)
		}
	}
	leader, _ := observing(onePool())
	with := scrape(t, leader)
	follower, leads := observing(onePool())
	leads.Store(false)
	without := scrape(t, follower)
	for name := range documented {
		line := "\n# TYPE " + name + " "
		isLeaders := strings.Contains(with, line) && !strings.Contains(without, line)
		require.Equal(t, slices.Contains(ofLeader, name), isLeaders, name)
	}
}

// ruleFile is a file of rules, and the alerts are what the tests need of it.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) ruleFile {
	t.Helper()
	text, err := os.ReadFile(monitoring + "alerts.yaml")
	require.NoError(t, err)
	var f ruleFile
	require.NoError(t, yaml.Unmarshal(text, &f))
	require.NotEmpty(t, f.Groups[0].Rules)
	return f
}

// dashboard has what the tests need of the dashboard.
type dashboard struct {
	Templating struct {
		List []struct{ Definition string }
	}
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ Expr string }
		GridPos struct{ X, Y, W, H int }
	}
}

// dashboardQueries returns the queries of the dashboard as Prometheus gets them, and
// those of its variables.
func dashboardQueries(t *testing.T) (queries, variables []string) {
	t.Helper()
	text, err := os.ReadFile(monitoring + "dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	filled := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$namespace", ".*", "$workload", ".*")
	ids := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "the id of %q", p.Title)
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries = append(queries, filled.Replace(target.Expr))
		}
	}
	for _, v := range d.Templating.List {
		if call := strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")"); call != "" {
			selector, label, ok := strings.Cut(filled.Replace(call), ", ")
			require.True(t, ok, call)
			variables = append(variables, "group by ("+label+") ("+selector+")")
		}
	}
	require.NotEmpty(t, queries)
	require.Len(t, variables, 3)
	for _, q := range slices.Concat(queries, variables) {
		require.NotContains(t, q, "$")
	}
	return queries, variables
}

var (
	quotedText  = regexp.MustCompile(`"[^"]*"`)
	metricUse   = regexp.MustCompile(`\b((?:hostler|hook|process|go)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher     = regexp.MustCompile(`([a-z_]+)(=~|!=|!~|=)"(\d+)"`)
	grouping    = regexp.MustCompile(`\b(?:by|on|without|ignoring) \(([a-z_, ]+)\)`)
	ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)
	ofTarget    = []string{"job", "namespace", "instance"} // what Prometheus adds
)

// checkQuery checks that each metric of a query exists, that it has the labels that the
// query uses, and that a gauge has the values that it is compared with.
func (m monitored) checkQuery(t *testing.T, query string) {
	t.Helper()
	var texts []string // strings may contain braces
	short := quotedText.ReplaceAllStringFunc(query, func(s string) string {
		texts = append(texts, strings.Trim(s, `"`))
		return `"` + string(rune('0'+len(texts)-1)) + `"`
	})
	require.Less(t, len(texts), 10)
	known := slices.Concat(ofTarget, []string{"le"})
	uses := metricUse.FindAllStringSubmatch(short, -1)
	require.NotEmpty(t, uses, query)
	for _, use := range uses {
		name := use[1]
		if _, ok := m.labels[name]; !ok {
			name = ofHistogram.ReplaceAllString(name, "")
		}
		labels, ok := m.labels[name]
		require.True(t, ok, "%s of %s", use[1], query)
		known = append(known, labels...)
		for _, match := range matcher.FindAllStringSubmatch(use[2], -1) {
			label, value := match[1], texts[match[3][0]-'0']
			require.True(t, slices.Contains(labels, label) || slices.Contains(ofTarget, label), "%s of %s", label, query)
			if match[2] == "=" && m.types[name] == "gauge" {
				require.Contains(t, m.text, label+`="`+value+`"`, query)
				require.Regexp(t, `(?m)^`+name+`\{[^}]*`+label+`="`+value+`"`, m.text)
			}
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(short, -1) {
		for label := range strings.SplitSeq(group[1], ", ") {
			require.Contains(t, known, label, query)
		}
	}
}

// Every metric and label that an alert, the dashboard or the text of an alert names is
// one that a server serves: an alert on another one never fires.
func TestMonitoringNamesMetrics(t *testing.T) {
	t.Parallel()
	m := monitorServer(t)
	for _, r := range readRules(t).Groups[0].Rules {
		m.checkQuery(t, r.Expr)
		for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["description"], -1) {
			require.Contains(t, r.Expr, label[1], "the query of %s keeps it", r.Alert)
		}
	}
	queries, variables := dashboardQueries(t)
	for _, q := range slices.Concat(queries, variables) {
		m.checkQuery(t, q)
	}
}

// Each alert has a summary, a description, a severity and a page that explains it. The
// page has no other alert. Each is in the tests that make it fire.
func TestAlertsAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/alerts.md")
	require.NoError(t, err)
	tests, err := os.ReadFile(monitoring + "alerts_test.yaml")
	require.NoError(t, err)
	var headings, alerts []string
	for _, h := range regexp.MustCompile(`(?m)^## (Hostler\w+)$`).FindAllStringSubmatch(string(page), -1) {
		headings = append(headings, h[1])
	}
	for _, r := range readRules(t).Groups[0].Rules {
		alerts = append(alerts, r.Alert)
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Equal(t, "https://github.com/hostler/hostler/blob/main/docs/alerts.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		require.Contains(t, string(tests), `exp_samples: [{ labels: 'ALERTS{alertname="`+r.Alert+`", alertstate="firing", severity="`+r.Labels["severity"], r.Alert)
	}
	require.Equal(t, alerts, headings)
}

// The chart has the same rules and the same dashboard.
func TestChartHasMonitoring(t *testing.T) {
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		want, err := os.ReadFile(monitoring + name)
		require.NoError(t, err)
		have, err := os.ReadFile(filepath.Join("../../deploy/chart/monitoring", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "cp deploy/monitoring/%s deploy/chart/monitoring/", name)
	}
}
