package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// What runs for every claim, event or hook finds its rows by an index, so that
// it takes as long with a hundred thousand rows of history as with none.
func TestHotQueriesUseIndexes(t *testing.T) {
	db := openTest(t)
	type query struct {
		text  string
		index string // that the plan must name
	}
	queries := map[string]query{
		"container by id":       {selectContainer, "sqlite_autoindex_containers_1"},
		"save container":        {updateContainer, "sqlite_autoindex_containers_1"},
		"count for the bound":   {countContainers, "COVERING INDEX containers_live"},
		"count by kind":         {countByKind, "COVERING INDEX containers_live"},
		"count by state":        {countByState, "COVERING INDEX containers_live"},
		"claim by id":           {selectClaim, "sqlite_autoindex_claims_1"},
		"save claim":            {updateClaim, "sqlite_autoindex_claims_1"},
		"live claim":            {selectLive, "claims_live"},
		"end run":               {endRun, "sqlite_autoindex_runs_1"},
		"is there a run":        {hasRun, "sqlite_autoindex_runs_1"},
		"unfinished runs":       {selectRuns + ` WHERE ` + running + oldestRuns, "runs_running"},
		"number events":         {takeSeqs, "INTEGER PRIMARY KEY"},
		"own container":         {preferences[0].query, "containers_idle (workload=? AND tenant=? AND revision=?)"},
		"fresh container":       {preferences[1].query, "containers_idle (workload=? AND tenant=? AND revision=?)"},
		"others' container":     {preferences[2].query, "containers_used (workload=? AND revision=?)"},
		"outdated container":    {preferences[3].query, "containers_idle (workload=? AND tenant=?)"},
		"workload":              {selectWorkload, "sqlite_autoindex_workloads_1"},
		"revision":              {selectRevision, "sqlite_autoindex_revisions_1"},
		"events after":          {eventText(activity.Filter{}), "INTEGER PRIMARY KEY (rowid>?)"},
		"events by type":        {eventText(activity.Filter{Types: []activity.Type{"hook"}}), "INTEGER PRIMARY KEY (rowid>?)"},
		"events of a claim":     {eventText(activity.Filter{Claim: "c"}), "events_claim"},
		"events of a container": {eventText(activity.Filter{Container: "c"}), "events_container"},
		"events of a tenant":    {eventText(activity.Filter{Tenant: "t"}), "events_tenant"},
	}
	text, _ := containerQuery(pool.ContainerFilter{Workload: "w"})
	queries["containers of a workload"] = query{text, "containers_live"}
	text, _ = containerQuery(pool.ContainerFilter{States: []pool.State{pool.Destroying}})
	queries["containers to destroy"] = query{text, "containers_live"}
	text, _ = claimQuery(claim.Filter{Workload: "w", Tenant: "t"})
	queries["live claim by filter"] = query{text, "claims_live"}
	text, _ = claimQuery(claim.Filter{Container: "k"})
	queries["claim of a container"] = query{text, "claims_container"}
	text, _ = claimQuery(claim.Filter{Tenant: "t", States: claim.States()})
	queries["claims of a tenant"] = query{text, "claims_tenant"}
	text, _ = claimQuery(claim.Filter{States: []claim.State{claim.Releasing}})
	queries["claims being released"] = query{text, "INDEX claims_live"}
	text, _ = claimQuery(claim.Filter{})
	queries["live claims"] = query{text, "INDEX claims_live"}
	text, _ = containerQuery(pool.ContainerFilter{})
	queries["containers that exist"] = query{text, "INDEX containers_live"}
	text, _ = runQuery(hooks.RunFilter{Claim: "c", Point: hooks.PreRelease})
	queries["runs of a claim"] = query{text, "runs_claim"}
	text, _ = runQuery(hooks.RunFilter{Container: "k"})
	queries["runs of a container"] = query{text, "runs_container"}

	for name, q := range queries {
		plan := explain(t, db, q.text)
		require.Contains(t, plan, q.index, "%s\n%s", name, q.text)
		for line := range strings.Lines(plan) {
			scans := strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "USING")
			require.False(t, scans, "%s reads a whole table: %s", name, plan)
		}
	}
	for _, p := range preferences[:3] {
		require.NotContains(t, explain(t, db, p.query), "TEMP B-TREE", "the longest idle is the index's first")
		require.NotNil(t, p.args(claim.Reservation{Reuse: workload.ReuseWipe}))
	}
}

func eventText(f activity.Filter) string {
	text, _ := eventQuery(f, 0, 10)
	return text
}

// explain is the plan of a query, a step a line.
func explain(t *testing.T, db *DB, text string) string {
	t.Helper()
	args := make([]any, strings.Count(text, "$"))
	rows, err := db.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+unlocked(text), args...)
	require.NoError(t, err)
	steps, err := collect(rows, func(r row) (step string, err error) {
		var id, parent, unused int
		err = r.Scan(&id, &parent, &unused, &step)
		return step, err
	})
	require.NoError(t, err)
	return strings.Join(steps, "\n")
}
