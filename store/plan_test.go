package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// A query that runs for every claim, event or hook finds its rows by an index,
// so that it takes as long with a hundred thousand rows of history as with
// none.
func TestHotQueriesUseIndexes(t *testing.T) {
	db := openTest(t)
	queries := hotQueries()
	for _, level := range quota.Levels() {
		for _, c := range []struct {
			kind  quota.Kind
			index map[quota.Level]string
		}{
			{quota.Claims, map[quota.Level]string{quota.Tenant: "claims_live_tenant (tenant=?)", quota.Key: "claims_live_key (quota_key=?)", quota.Workload: "claims_live_workload (workload=?)"}},
			{quota.Rate, map[quota.Level]string{
				quota.Tenant: "claims_tenant_created (<expr>=? AND created_at>?)", quota.Key: "claims_key_created (<expr>=? AND created_at>?)",
				quota.Workload: "claims_workload_created (<expr>=? AND created_at>?)",
			}},
			{quota.State, map[quota.Level]string{quota.Tenant: "state_sizes_tenant (tenant=?)", quota.Key: "state_sizes_key (quota_key=?)", quota.Workload: "state_sizes_1 (workload=?)"}},
		} {
			query := usageQuery(level, func(k quota.Kind) bool { return k == c.kind })
			queries["quota of "+string(level)+" "+string(c.kind)] = hotQuery{query, c.index[level]}
		}
		queries["recent claim of "+string(level)] = hotQuery{strings.ReplaceAll(recentClaim, "COLUMN", quotaColumns[level]), "_created ("}
	}
	queries["limits"] = hotQuery{selectLimits, "sqlite_autoindex_quotas_1"}
	for name, q := range queries {
		plan := explain(t, db, q.text)
		require.Contains(t, plan, q.index, "%s\n%s", name, q.text)
		for line := range strings.Lines(plan) {
			scanned, scans := strings.CutPrefix(strings.TrimSpace(line), "SCAN ")
			scans = scans && !strings.Contains(line, "USING") && !slices.Contains(derivedTables, scanned)
			require.False(t, scans, "%s reads a whole table: %s", name, plan)
		}
	}
	for _, p := range preferences[:3] {
		require.NotContains(t, explain(t, db, p.query), "TEMP B-TREE", "the index is sorted by idle time")
		require.NotNil(t, p.args(claim.Reservation{Reuse: workload.ReuseWipe}, runtime.Protocols{}))
	}
}

// derivedTables are those that queries make themselves, row by row. The tables that
// they are made from have lines of their own in the plan.
var derivedTables = []string{"requesters", "requester", "ending", "CONSTANT ROW"}

var (
	labelledQuery, _ = claimQuery(claim.Filter{Labels: map[string]string{"a": "b"}, States: claim.States()})
	newestEvents, _  = newestQuery(activity.Filter{Claim: "c"}, 10)
	newestRuns, _    = runQuery(hooks.RunFilter{Claim: "c", Newest: true, Limit: 10})
	expiringQuery, _ = claimQuery(claim.Filter{ExpiresBefore: time.Unix(1, 0), States: []claim.State{claim.Active}})
)

// hotQuery is a query that runs for every claim, event or hook.
type hotQuery struct {
	text  string
	index string // that SQLite's plan must name
}

func hotQueries() map[string]hotQuery {
	queries := map[string]hotQuery{
		"container by id":       {selectContainer, "sqlite_autoindex_containers_1"},
		"save container":        {updateContainer.text, "sqlite_autoindex_containers_1"},
		"count for the bound":   {countContainers, "COVERING INDEX containers_live"},
		"count by kind":         {countByKind, "COVERING INDEX containers_live"},
		"measured containers":   {measureContainers, "COVERING INDEX containers_live"},
		"measured claims":       {measureClaims, "INDEX claims_live"},
		"overdue hooks":         {overdueRuns, "INDEX runs_running"},
		"tenant of a claim":     {tenantOfClaim, "sqlite_autoindex_claims_1"},
		"claim by id":           {selectClaim, "sqlite_autoindex_claims_1"},
		"add claim":             {insertClaim.text, "claims_fence (workload=? AND tenant=? AND fence>?)"},
		"save claim":            {updateClaim.text, "sqlite_autoindex_claims_1"},
		"live claim":            {selectLive, "claims_live"},
		"labels of a claim":     {labelledQuery, "claim_labels_value (name=? AND value=?)"},
		"newest events":         {newestEvents, "events_claim (claim=? AND seq>?)"},
		"newest runs":           {newestRuns, "runs_claim (claim=?)"},
		"next memory to end":    {nextEnding, "memory_scopes_ends (level=? AND ends_at>?)"},
		"next claim to expire":  {nextExpiry, "claims_expiring (expires_at>?)"},
		"claims that expire":    {expiringQuery, "claims_expiring (expires_at>? AND expires_at<?)"},
		"end run":               {endRun, "sqlite_autoindex_runs_1"},
		"runs to shorten":       {selectSurplus, "runs_large (workload=? AND tenant=?)"},
		"is there a run":        {hasRun, "sqlite_autoindex_runs_1"},
		"has the claim ended":   {claimEnded, "sqlite_autoindex_claims_1"},
		"has the container":     {containerEnded, "sqlite_autoindex_containers_1"},
		"running of a claim":    {runningOfClaim, "INDEX runs_"},
		"running in container":  {runningInContainer, "INDEX runs_"},
		"failed releases":       {countRetainedClaims, "INDEX claims_kept"},
		"number events":         {reserveSeqs, "INTEGER PRIMARY KEY"},
		"next delivery":         {firstDelivery, "deliveries_lane (workload=? AND hook=? AND lane=?)"},
		"debounced delivery":    {replaceDebounced, "deliveries_lane (workload=? AND hook=? AND lane=? AND seq<?)"},
		"flushed deliveries":    {flushDebounced, "deliveries_lane (workload=? AND hook=? AND lane=?)"},
		"keys of deliveries":    {deliveryKeys, "INDEX deliveries_lane"},
		"deliveries left":       {countLiveOf, "deliveries_lane (workload=?)"},
		"delivery by id":        {selectDelivery, "sqlite_autoindex_deliveries_1"},
		"owner of a delivery":   {selectOwner, "sqlite_autoindex_deliveries_1"},
		"save delivery":         {updateDelivery.text, "sqlite_autoindex_deliveries_1"},
		"claim of a command":    {stateOfClaim, "sqlite_autoindex_claims_1"},
		"container of it":       {commandStarts, "sqlite_autoindex_containers_1"},
		"running test":          {runningTest, "INDEX runs_"},
		"event of a delivery":   {lockEvent, "INTEGER PRIMARY KEY"},
		"event to deliver":      {selectEvent, "INTEGER PRIMARY KEY"},
		"allowance":             {selectAllowance, "sqlite_autoindex_allowances_1"},
		"save allowance":        {saveAllowance, "sqlite_autoindex_allowances_1"},
		"event of a request":    {eventOfRequest, "events_request (claim=? AND request=?)"},
		"run of an event":       {isForEvent, "sqlite_autoindex_runs_1"},
		"event hooks that run":  {runningForEvent, "INDEX runs_"},
		"published by a claim":  {publishedOf, "events_published (claim=? AND seq>? AND seq<?)"},
		"oldest to keep":        {oldestKept, "events_published (claim=?)"},
		"published by all":      {publishedByAll, "events_untrusted"},
		"claims that published": {fullClaims, "COVERING INDEX events_published"},
		"anything published":    {anyPublished, "INDEX events_"},
		"open wait of a name":   {openWaitNamed, "waits_name (claim=? AND name=?)"},
		"open wait of a claim":  {openWaitOf, "INDEX waits_"},
		"wait of a request":     {waitOfRequest, "waits_request (claim=? AND request=?)"},
		"joined by a request":   {joinOfRequest, "sqlite_autoindex_wait_requests_1 (claim=? AND request=?)"},
		"what joined a wait":    {countJoins, "wait_requests_wait (wait=?)"},
		"joined in a minute":    {countWaitsSince, "wait_requests_time (claim=? AND created_at>? AND created_at<?)"},
		"wait by id":            {selectWait, "sqlite_autoindex_waits_1"},
		"save wait":             {updateWait.text, "sqlite_autoindex_waits_1"},
		"waits in a minute":     {countWaitsSince, "waits_claim (claim=?)"},
		"ended waits to remove": {deleteOldWaits, "waits_ended (claim=? AND ended_at>? AND ended_at<?)"},
		"open waits":            {listOpened, "USING INDEX waits_"},
		"kept signal":           {selectSignal, "signals_name (claim=? AND name=?)"},
		"kept signals":          {countSignals, "INDEX signals_name (claim=? AND name=?)"},
		"signals of a claim":    {deleteSignals, "signals_name (claim=?)"},
		"sessions of a server":  {heldClaims + heldBy + orderHeld, "INDEX claims_"},
		"sessions of all":       {heldClaims + orderHeld, "INDEX claims_"},
		"claims to adopt":       {adoptClaims, "INDEX claims_"},
		"own container":         {preferences[0].query, "containers_idle (workload=? AND tenant=? AND revision=?)"},
		"fresh container":       {preferences[1].query, "containers_idle (workload=? AND tenant=? AND revision=?)"},
		"others' container":     {preferences[2].query, "containers_used (workload=? AND revision=?)"},
		"outdated container":    {preferences[3].query, "containers_idle (workload=? AND tenant=?)"},
		"workload":              {selectWorkload, "sqlite_autoindex_workloads_1"},
		"revision":              {selectRevision, "sqlite_autoindex_revisions_1"},
		"access to memory":      {lockMemoryAccess, "sqlite_autoindex_claims_1"},
		"scope of memory":       {lockScope, "memory_scopes_live (workload=? AND tenant=? AND claim=?)"},
		"value of memory":       {selectMemory, "sqlite_autoindex_memory_entries_1 (scope=? AND key=?)"},
		"keys of memory":        {listMemory, "sqlite_autoindex_memory_entries_1 (scope=? AND key>?)"},
		"entry of memory":       {selectEntry, "sqlite_autoindex_memory_entries_1 (scope=? AND key=?)"},
		"memory of a claim":     {endClaimMemory, "memory_scopes_live (workload=? AND tenant=? AND claim=?)"},
		"memory of a workload":  {endWorkloadMemory, "memory_scopes_live (workload=?"},
		"ended memory":          {endedScope, "memory_scopes_ended"},
		"values to remove":      {deleteEntries, "sqlite_autoindex_memory_entries_1 (scope=?"},
		"memory that ends":      {countEndings, "memory_scopes_ends (level=? AND ends_at>? AND ends_at<?)"},
		"memory without an end": {countEndings, "memory_scopes_ends (level=? AND ends_at=?)"},
		"shared memory":         {countEndings, "memory_scopes_ends (level=? AND ends_at>?)"},
		"memory to end":         {endDue, "memory_scopes_ends (level=? AND ends_at>? AND ends_at<?)"},
		"memory to end later":   {endLost, "memory_scopes_ends (level=? AND ends_at=?)"},
		"memory not shared":     {endUnshared, "memory_scopes_ends (level=? AND ends_at=?)"},
		"memory to keep":        {keepShared, "memory_scopes_ends (level=? AND ends_at>?)"},
		"requests to remove":    {countUnusedRequests, "COVERING INDEX memory_requests_time (claim>?)"},
		"removal of requests":   {unusedRequests, "COVERING INDEX memory_requests_time (claim>?)"},
		"claim of a tenant's":   {lockState, "sqlite_autoindex_claims_1"},
		"commands of a claim":   {countOpen, "open_execs_1 (claim=?)"},
		"first command":         {firstOpen, "open_execs_1 (claim=?)"},
		"end of a command":      {removeOpen, "open_execs_1 (claim=? AND id=?)"},
		"open commands":         {selectOpen, "open_execs_1"},
		"commands' claims":      {usesOf(useConditions[0]).claims, "COVERING INDEX events_uses_exec"},
		"files' claims":         {usesOf(useConditions[1]).claims, "COVERING INDEX events_uses_file"},
		"requests' claims":      {usesOf(useConditions[2]).claims, "COVERING INDEX events_uses_request"},
		"oldest command kept":   {usesOf(useConditions[0]).oldestKept, "events_uses_exec (claim=?)"},
		"files of a claim":      {usesOf(useConditions[1]).events, "events_uses_file (claim=? AND seq>? AND seq<?)"},
		"events after":          {eventQueryText(activity.Filter{}), "INTEGER PRIMARY KEY (rowid>?)"},
		"events by type":        {eventQueryText(activity.Filter{Types: []activity.Type{"hook"}}), "INTEGER PRIMARY KEY (rowid>?)"},
		"events of programs":    {eventQueryText(activity.Filter{Untrusted: new(true)}), "events_untrusted"},
		"events of a claim":     {eventQueryText(activity.Filter{Claim: "c"}), "events_claim"},
		"events of a container": {eventQueryText(activity.Filter{Container: "c"}), "events_container"},
		"events of a tenant":    {eventQueryText(activity.Filter{Tenant: "t"}), "events_tenant"},
	}
	one := &activity.Scope{{Tenant: activity.Exactly("t"), Workload: activity.Anything}}
	queries["events of a scope"] = hotQuery{eventQueryText(activity.Filter{Scope: one}), "events_tenant"}
	text, _ := claimQuery(claim.Filter{Scope: one, States: claim.States()})
	queries["claims of a scope"] = hotQuery{text, "claims_tenant"}
	text, _ = waitQuery(wait.Filter{Scope: one, Limit: 100})
	queries["waits of a scope"] = hotQuery{text, "waits_tenant (tenant=?"}
	text, _ = containerQuery(pool.ContainerFilter{Workload: "w"})
	queries["containers of a workload"] = hotQuery{text, "containers_live"}
	text, _ = containerQuery(pool.ContainerFilter{States: []pool.State{pool.Destroying}})
	queries["containers to destroy"] = hotQuery{text, "containers_live"}
	text, _ = containerQuery(pool.ContainerFilter{IsForced: true})
	queries["forced destructions"] = hotQuery{text, "INDEX containers_forced"}
	text, _ = containerQuery(pool.ContainerFilter{States: []pool.State{pool.Idle}, NoWorkload: true})
	queries["containers of no workload"] = hotQuery{text, "sqlite_autoindex_workloads_1 (id=?)"}
	text, _ = claimQuery(claim.Filter{Workload: "w", Tenant: "t"})
	queries["live claim by filter"] = hotQuery{text, "claims_live"}
	text, _ = claimQuery(claim.Filter{Container: "k"})
	queries["claim of a container"] = hotQuery{text, "claims_container"}
	text, _ = claimQuery(claim.Filter{Tenant: "t", States: claim.States()})
	queries["claims of a tenant"] = hotQuery{text, "claims_tenant"}
	text, _ = claimQuery(claim.Filter{States: []claim.State{claim.Releasing}})
	queries["claims being released"] = hotQuery{text, "INDEX claims_live"}
	text, _ = claimQuery(claim.Filter{})
	queries["live claims"] = hotQuery{text, "INDEX claims_live"}
	text, _ = containerQuery(pool.ContainerFilter{})
	queries["containers that exist"] = hotQuery{text, "INDEX containers_live"}
	for index, f := range map[string]wait.Filter{
		"waits_tenant (tenant=? AND id>?)": {Tenant: "t", After: "w"}, "waits_workload (workload=? AND id>?)": {Workload: "w", After: "w"},
		"waits_claim (claim=?)": {Claim: "c"}, "INDEX waits_open": {States: []wait.State{wait.Waiting}}, "sqlite_autoindex_waits_1": {After: "w"},
	} {
		f.Limit = 100
		text, _ = waitQuery(f)
		queries["waits by "+index] = hotQuery{text, index}
	}
	text, _ = runQuery(hooks.RunFilter{Claim: "c", Point: hooks.PreRelease})
	queries["runs of a claim"] = hotQuery{text, "runs_claim"}
	text, _ = runQuery(hooks.RunFilter{States: []hooks.RunState{hooks.Running}})
	queries["running runs"] = hotQuery{text, "runs_running"}
	text, _ = runQuery(hooks.RunFilter{Container: "k"})
	queries["runs of a container"] = hotQuery{text, "runs_container"}
	text, _ = runQuery(hooks.RunFilter{Container: "k", Captured: true, NoClaim: true})
	queries["captured by a container"] = hotQuery{text, "runs_captured (container=? AND claim=?)"}
	text, _ = runQuery(hooks.RunFilter{Container: "k", Captured: true, Claim: "c"})
	queries["captured by a claim"] = hotQuery{text, "INDEX runs_c"}
	own := &activity.Scope{{Tenant: activity.Exactly("t"), Workload: activity.Anything}}
	for _, part := range []string{"", "0123"} {
		text, _ = runQuery(hooks.RunFilter{Scope: own, IDPart: part, Newest: true, Limit: 51})
		queries["a tenant's runs by the part "+part] = hotQuery{text, "runs_tenant (tenant=?)"}
		text, _ = claimQuery(claim.Filter{Scope: own, IDPart: part, States: []claim.State{claim.Released}, Newest: true, Limit: 51})
		queries["a tenant's claims by the part "+part] = hotQuery{text, "claims_tenant (tenant=?)"}
		text, _ = waitQuery(wait.Filter{Scope: own, IDPart: part, Newest: true, Limit: 51})
		queries["a tenant's waits by the part "+part] = hotQuery{text, "waits_tenant (tenant=?)"}
	}
	return queries
}

// PostgreSQL has the same indexes, and all of these queries can use one. With
// tables as small as a test's it would not, so the test disables sequential
// scans.
func TestHotQueriesCanUseIndexesOfPostgres(t *testing.T) {
	target := postgrestest.Schema(t)
	db, err := Open(t.Context(), target+"&enable_seqscan=off&plan_cache_mode=force_generic_plan")
	require.NoError(t, err)
	defer db.Close() //nolint:errcheck // it only reads
	conn, err := db.read.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the same
	for name, q := range hotQueries() {
		_, err := conn.ExecContext(t.Context(), "PREPARE hot AS "+withoutLocks(q.text))
		require.NoError(t, err, name)
		args := strings.TrimSuffix(strings.Repeat("NULL, ", maxParameter(q.text)), ", ")
		if args != "" {
			args = "(" + args + ")"
		}
		rows, err := conn.QueryContext(t.Context(), "EXPLAIN EXECUTE hot"+args)
		require.NoError(t, err, name)
		steps, err := collectRows(rows, scanText)
		require.NoError(t, err)
		require.NotContains(t, strings.Join(steps, "\n"), "Seq Scan", "%s\n%s", name, q.text)
		_, err = conn.ExecContext(t.Context(), "DEALLOCATE hot")
		require.NoError(t, err)
	}
}

// maxParameter returns the number of a query's last parameter.
func maxParameter(text string) (n int) {
	for i := 1; strings.Contains(text, fmt.Sprintf("$%d", i)); i++ {
		n = i
	}
	return n
}

func eventQueryText(f activity.Filter) string {
	text, _ := eventQuery(f, 0, 10)
	return text
}

// explain returns the plan of a query, one step per line.
func explain(t *testing.T, db *DB, text string) string {
	t.Helper()
	args := make([]any, strings.Count(text, "$"))
	rows, err := db.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+withoutLocks(text), args...)
	require.NoError(t, err)
	steps, err := collectRows(rows, func(r row) (step string, err error) {
		var id, parent, unused int
		err = r.Scan(&id, &parent, &unused, &step)
		return step, err
	})
	require.NoError(t, err)
	return strings.Join(steps, "\n")
}
