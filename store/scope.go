package store

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hostler/hostler/activity"
)

// scope requires what a reader may see. The columns are the table's tenant and
// workload, and claim is that of the id of a claim. It selects what Scope.Includes
// does.
func (w *where) scope(s *activity.Scope, claim string) {
	if s == nil {
		return
	}
	c := scopeConditions{where: w, claim: claim, names: map[string]string{}}
	all := factored(*s)
	if slices.ContainsFunc(all, scopeRow.isEverything) {
		return
	}
	var rows []string
	for _, r := range all {
		conditions := c.of(r)
		if len(all) == 1 {
			// On their own, so that an index on the column can be used.
			w.conditions = append(w.conditions, conditions...)
			return
		}
		rows = append(rows, "("+strings.Join(conditions, " AND ")+")")
	}
	w.add(anyOf(rows))
}

// scopeRow selects what has one of the tenants, one of the workloads and the claim.
type scopeRow struct {
	tenants, workloads []activity.Pattern
	claim              string
	owned              bool
}

// isEverything reports whether the row selects everything.
func (r scopeRow) isEverything() bool {
	return slices.Contains(r.tenants, activity.Anything) && slices.Contains(r.workloads, activity.Anything) && r.claim == "" && !r.owned
}

// factored returns the selectors as few rows. A grant for a hundred tenants and a
// hundred workloads has ten thousand selectors, and is one row.
func factored(s activity.Scope) []scopeRow {
	type ofTenants struct {
		workload activity.Pattern
		claim    string
		owned    bool
	}
	byWorkload := map[ofTenants]int{}
	var rows []scopeRow
	for _, r := range s {
		key := ofTenants{r.Workload, r.Claim, r.Owned}
		i, ok := byWorkload[key]
		if !ok {
			i = len(rows)
			byWorkload[key] = i
			rows = append(rows, scopeRow{workloads: []activity.Pattern{r.Workload}, claim: r.Claim, owned: r.Owned})
		}
		rows[i].tenants = append(rows[i].tenants, r.Tenant)
	}
	byTenants := map[string]int{}
	var merged []scopeRow
	for _, r := range rows {
		key := tenantsKey(r)
		i, ok := byTenants[key]
		if !ok {
			byTenants[key] = len(merged)
			merged = append(merged, r)
			continue
		}
		merged[i].workloads = append(merged[i].workloads, r.workloads...)
	}
	return merged
}

// tenantsKey returns a text that is the same for rows that differ only in their
// workloads.
func tenantsKey(r scopeRow) string {
	key := fmt.Sprintf("%q %v", r.claim, r.owned)
	for _, p := range r.tenants {
		text, isPrefix := p.Prefix()
		key += fmt.Sprintf(" %q %v", text, isPrefix)
	}
	return key
}

// scopeConditions makes the conditions of a scope. A value that is needed twice is
// one argument: databases bound their number.
type scopeConditions struct {
	*where
	claim string
	names map[string]string // of arguments, by value
}

// value returns the name of the argument with a value.
func (c scopeConditions) value(v string) string {
	name, ok := c.names[v]
	if !ok {
		name = c.arg(v)
		c.names[v] = name
	}
	return name
}

// of returns the conditions of a row. All must be met.
func (c scopeConditions) of(r scopeRow) []string {
	tenants := c.matches("tenant", r.tenants)
	if r.owned && len(tenants) == 0 {
		tenants = []string{"tenant <> ''"}
	}
	all := append(tenants, c.matches("workload", r.workloads)...)
	if r.claim != "" {
		all = append(all, c.matches(c.claim, []activity.Pattern{activity.Exactly(r.claim)})...)
	}
	return all
}

// matches returns the conditions for a column that one of the patterns matches: none
// if one of them matches all. The second one is that of the partial indexes on such
// columns. A name that cannot be stored is that of nothing.
func (c scopeConditions) matches(column string, patterns []activity.Pattern) []string {
	var exact, all []string
	for _, p := range patterns {
		text, isPrefix := p.Prefix()
		switch {
		case isPrefix && text == "":
			return nil
		case text != sanitizeText(text):
		case isPrefix:
			all = append(all, fmt.Sprintf("substr(%s, 1, %d) = %s", column, utf8.RuneCountInString(text), c.value(text)))
		case len(patterns) == 1 && text != "":
			return []string{column + " = " + c.value(text), column + " <> ''"}
		default:
			exact = append(exact, c.value(text))
		}
	}
	if len(exact) > 0 {
		all = append(all, column+" IN ("+strings.Join(exact, ", ")+")")
	}
	return []string{anyOf(all)}
}

// anyOf returns a condition that is met if one of the conditions is. It is a
// balanced tree: SQLite bounds the depth of expressions.
func anyOf(conditions []string) string {
	switch n := len(conditions); n {
	case 0:
		return "1 = 0"
	case 1:
		return conditions[0]
	default:
		return "(" + anyOf(conditions[:n/2]) + " OR " + anyOf(conditions[n/2:]) + ")"
	}
}
