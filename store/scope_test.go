package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// A scope is as few conditions as it can be, so that an index serves a scope of one
// tenant, and grants with as many patterns as they may have stay within the bounds
// of databases.
func TestScopeConditions(t *testing.T) {
	prefix := func(text string) (p activity.Pattern) {
		require.NoError(t, p.UnmarshalText([]byte(text+"*")))
		return p
	}
	ann, all := activity.Exactly("ann"), activity.Anything
	for name, c := range map[string]struct {
		scope *activity.Scope
		where string
		args  []any
	}{
		"everything":       {nil, "", nil},
		"one that has all": {&activity.Scope{{Tenant: ann, Workload: all}, {Tenant: all, Workload: all}}, "", nil},
		"nothing":          {&activity.Scope{}, " WHERE 1 = 0", nil},
		"a tenant":         {&activity.Scope{{Tenant: ann, Workload: all, Owned: true}}, " WHERE tenant = $1 AND tenant <> ''", []any{"ann"}},
		"all tenants":      {&activity.Scope{{Tenant: all, Workload: all, Owned: true}}, " WHERE tenant <> ''", nil},
		"a claim":          {&activity.Scope{{Tenant: all, Workload: all, Claim: "c"}}, " WHERE claim = $1 AND claim <> ''", []any{"c"}},
		"a prefix":         {&activity.Scope{{Tenant: prefix("éa"), Workload: all}}, " WHERE substr(tenant, 1, 2) = $1", []any{"éa"}},
		"no name":          {&activity.Scope{{Tenant: activity.Exactly("a\x00"), Workload: all}}, " WHERE 1 = 0", nil},
		"two tenants": {
			&activity.Scope{{Tenant: ann, Workload: prefix("w")}, {Tenant: activity.Exactly("bob"), Workload: prefix("w")}},
			" WHERE tenant IN ($1, $2) AND substr(workload, 1, 1) = $3", []any{"ann", "bob", "w"},
		},
		"two rows": {
			&activity.Scope{{Tenant: ann, Workload: activity.Exactly("ann")}, {Tenant: activity.Exactly("bob"), Workload: all}},
			" WHERE ((tenant = $1 AND tenant <> '' AND workload = $1 AND workload <> '') OR (tenant = $2 AND tenant <> ''))", []any{"ann", "bob"},
		},
	} {
		var w where
		w.scope(c.scope, "claim")
		require.Equal(t, c.where, w.String(), name)
		require.Equal(t, c.args, w.args, name)
	}
	var large activity.Scope
	for i := range 100 {
		for j := range 100 {
			large = append(large, activity.Selector{Tenant: activity.Exactly(fmt.Sprint(i)), Workload: prefix(fmt.Sprint("w", j))})
		}
	}
	var w where
	w.scope(&large, "claim")
	require.Len(t, w.args, 200)
	require.Len(t, w.conditions, 2)
}
