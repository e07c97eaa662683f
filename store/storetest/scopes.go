package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/wait"
)

// scopedTenants are tenants whose names are alike, in one way or another.
var scopedTenants = []string{"ann", "ANN", "ann ", "annabel", "an%", "an_", "a*", `a\`, "ä", "a\u0308", "日本", "日本語", "'' OR 1=1"}

// scopeWorld has a thing of each kind for each tenant and each of two workloads, and
// of no tenant.
func scopeWorld(t *testing.T, s Store) (claims []string) {
	t.Helper()
	ctx := t.Context()
	PutWorkloads(t, s, "web", "web-2")
	var log []activity.Event
	for _, tenant := range append([]string{""}, scopedTenants...) {
		for _, id := range []string{"web", "web-2"} {
			k, held := newID(), ""
			require.NoError(t, s.AddContainer(ctx, pool.Container{ID: k, Workload: id, Revision: rev}, unlimited))
			mustUpdateContainer(t, s, idleTransition(k, tenant))
			if tenant != "" {
				c, err := s.Reserve(ctx, claim.Reservation{Claim: newID(), Workload: id, Tenant: tenant, Revision: rev})
				require.NoError(t, err)
				mustUpdateClaim(t, s, activeTransition(c.ID))
				startWait(t, s, newWait(c, "n"))
				held, claims = c.ID, append(claims, c.ID)
			}
			r := newAttempt(newID(), 1)
			r.Workload, r.Container, r.Claim, r.Tenant = id, k, held, tenant
			require.NoError(t, s.RunStarted(ctx, r))
			d := newDelivery("h", k, 1)
			d.Workload, d.Claim, d.Tenant, d.Replay = id, held, tenant, true
			addDelivery(t, s, delivery.Change{Add: d})
			log = append(log, activity.Event{Type: activity.PoolWarning, Workload: id, Tenant: tenant, Claim: held})
		}
	}
	// The first ones are no longer in memory.
	require.NoError(t, s.Append(ctx, slices.Repeat([]activity.Event{{Type: activity.PoolDrained, Workload: "others"}}, 4200)...))
	require.NoError(t, s.Append(ctx, log...))
	return claims
}

// testedScopes returns scopes of one and of several selectors.
func testedScopes(claim string) []*activity.Scope {
	one := func(tenant, workload activity.Pattern) activity.Selector {
		return activity.Selector{Tenant: tenant, Workload: workload}
	}
	prefix := func(text string) activity.Pattern {
		var p activity.Pattern
		if err := p.UnmarshalText([]byte(text + "*")); err != nil {
			panic(err)
		}
		return p
	}
	all := []*activity.Scope{
		nil, {},
		{one(activity.Anything, activity.Anything)},
		{{Tenant: activity.Anything, Workload: activity.Anything, Owned: true}},
		{{Tenant: activity.Anything, Workload: activity.Anything, Claim: claim}},
		{{Tenant: activity.Exactly("ann"), Workload: activity.Anything, Claim: claim + "\x00"}},
		{one(activity.Exactly(""), activity.Exactly("web"))},
		{one(activity.Exactly("ann\x00"), activity.Anything)},
		{one(activity.Exactly("ann"), activity.Exactly("web")), one(activity.Exactly("ä"), activity.Exactly("web-2"))},
		{one(activity.Exactly("ann"), prefix("web-")), one(prefix("a"), activity.Exactly("web")), one(activity.Exactly("a*"), activity.Anything)},
		{one(activity.Exactly("ann"), activity.Anything), {Tenant: prefix("日"), Workload: activity.Anything, Claim: claim}},
	}
	for _, tenant := range scopedTenants {
		all = append(all, &activity.Scope{one(activity.Exactly(tenant), activity.Anything)})
		if !strings.Contains(tenant, "*") {
			all = append(all, &activity.Scope{one(prefix(tenant), prefix("web"))})
		}
	}
	// As many as the grants of one principal may have.
	var large activity.Scope
	for i := range 100 {
		for j := range 100 {
			large = append(large, one(prefix("x"+strings.Repeat("é", i)), prefix("w"+strings.Repeat("y", j))))
		}
	}
	return append(all, &large, new(append(large, one(activity.Exactly("ann"), activity.Anything), one(activity.Exactly("ann"), prefix("w")))))
}

// scopes: a list has what its scope includes, and nothing else, also together with
// other filters and in pages.
func scopes(t *testing.T, s Store) {
	ctx := t.Context()
	claims := scopeWorld(t, s)
	for _, scope := range testedScopes(claims[3]) {
		scopedList(t, "claims", scope, func(in *activity.Scope) ([]claim.Claim, error) {
			return s.Claims(ctx, claim.Filter{Scope: in})
		}, func(c claim.Claim) bool { return scope.Includes(c.Tenant, c.Workload, c.ID) })
		scopedList(t, "claims of web", scope, func(in *activity.Scope) ([]claim.Claim, error) {
			return s.Claims(ctx, claim.Filter{Scope: in, Workload: "web", States: claim.States()})
		}, func(c claim.Claim) bool { return scope.Includes(c.Tenant, c.Workload, c.ID) })
		scopedList(t, "containers", scope, func(in *activity.Scope) ([]pool.Container, error) {
			return s.Containers(ctx, pool.ContainerFilter{Scope: in})
		}, func(c pool.Container) bool { return scope.Includes(c.Tenant, c.Workload, c.Claim) })
		scopedList(t, "runs", scope, func(in *activity.Scope) ([]hooks.Run, error) {
			return s.Runs(ctx, hooks.RunFilter{Scope: in})
		}, func(r hooks.Run) bool { return scope.Includes(r.Tenant, r.Workload, r.Claim) })
		scopedList(t, "waits", scope, func(in *activity.Scope) ([]wait.Wait, error) {
			return s.Waits(ctx, wait.Filter{Scope: in, After: "0"})
		}, func(w wait.Wait) bool { return scope.Includes(w.Tenant, w.Workload, w.Claim) })
		scopedList(t, "deliveries", scope, func(in *activity.Scope) ([]delivery.Delivery, error) {
			return s.Deliveries(ctx, delivery.Filter{Scope: in})
		}, func(d delivery.Delivery) bool { return scope.Includes(d.Tenant, d.Workload, d.Claim) })
		last, err := s.LastSeq(ctx)
		require.NoError(t, err)
		for name, after := range map[string]int64{"events": 0, "events in memory": last - 100} {
			scopedList(t, name, scope, func(in *activity.Scope) ([]activity.Event, error) {
				p, err := s.Events(ctx, activity.Filter{Scope: in, Types: []activity.Type{activity.PoolWarning}}, after, 1<<20)
				return p.Items, err
			}, func(e activity.Event) bool { return scope.Includes(e.Tenant, e.Workload, e.Claim) })
		}
	}
}

// scopedList compares a list with what the scope includes of all.
func scopedList[T any](t *testing.T, name string, scope *activity.Scope, list func(*activity.Scope) ([]T, error), includes func(T) bool) {
	t.Helper()
	all, err := list(nil)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	got, err := list(scope)
	require.NoError(t, err, name)
	want := slices.DeleteFunc(slices.Clone(all), func(item T) bool { return !includes(item) })
	require.Len(t, got, len(want), "%s of %.300v", name, scope)
	require.ElementsMatch(t, want, got, "%s of %.300v", name, scope)
}

// eventsOfUnwiped: until a container is wiped, its record has its last tenant. The
// events of its claim are not that tenant's.
func eventsOfUnwiped(t *testing.T, s Store) {
	addIdleContainer(t, s, rev, "ann")
	c := addActiveClaim(t, s, "bob")
	from := lastSeq(t, s)
	k := mustUpdateContainer(t, s, pool.Note(c.Container, pool.Claimed, func(k *pool.Container) { k.Health = pool.Unhealthy },
		activity.Event{Type: activity.ContainerUnhealthy}))
	require.Equal(t, "ann", k.Tenant)
	for tenant, want := range map[activity.Pattern]int{activity.Exactly("ann"): 0, activity.Exactly("bob"): 0, activity.Anything: 1} {
		found, err := s.Containers(t.Context(), pool.ContainerFilter{Scope: &activity.Scope{{Tenant: tenant, Workload: activity.Anything, Owned: true}}})
		require.NoError(t, err)
		require.Len(t, found, want, tenant)
	}
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	all := events(t, s, activity.Filter{Claim: c.ID}, from)
	require.Len(t, all, 4)
	for _, e := range all {
		require.Equal(t, "bob", e.Tenant, e.Type)
	}
}

// outputOfUnwiped: what a container that is not wiped printed for its last tenant is in
// no event of the claim that has it now.
func outputOfUnwiped(t *testing.T, s Store) {
	addIdleContainer(t, s, rev, "ann")
	c := addActiveClaim(t, s, "bob")
	from := lastSeq(t, s)
	excerpt := &activity.Excerpt{Excerpt: "CANARY", Total: 6}
	note := pool.Note(c.Container, pool.Claimed, nil,
		activity.Event{Type: activity.ContainerUnhealthy, Data: activity.Data(activity.ContainerUnhealthyData{Check: excerpt, Output: excerpt})},
		activity.Event{Type: activity.ContainerDied, Data: activity.Data(activity.ContainerDiedData{ExitCode: 3, Output: excerpt})})
	for tenant, want := range map[string]int{"ann": 0, "bob": 3} {
		note.Output = &pool.Output{Tenant: tenant, Main: runtime.Output{Tail: "CANARY", Total: 6}}
		mustUpdateContainer(t, s, note)
		found := events(t, s, activity.Filter{Tenant: "bob"}, from)
		from = lastSeq(t, s)
		require.Len(t, found, 2)
		require.Contains(t, string(found[1].Data), `"exit_code":3`)
		require.Equal(t, want, strings.Count(string(found[0].Data)+string(found[1].Data), "CANARY"), tenant)
	}
}
