// Package auth defines who sends a request, and what they may do.
//
// It promises that a principal may do only what one of its grants permits: a grant
// has a role, and patterns of the tenants and the workloads on which it acts. What
// each role may do is a column of the routes, in package api. Where principals come
// from, keys, tokens, certificates and users of the machine, is left to the
// packages below this one.
package auth

import (
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
)

// Role is what a principal is to a server.
type Role string

// The roles.
const (
	// Tenant uses its own claims, and reads their hook runs, events and state.
	Tenant Role = "tenant"
	// Author applies workloads, and reads their hook runs and events.
	Author Role = "author"
	// Viewer reads everything but secrets, output and what tenants keep.
	Viewer Role = "viewer"
	// Operator may do everything.
	Operator Role = "operator"
	// Metrics reads the metrics.
	Metrics Role = "metrics"
)

// Roles returns the roles in the order of the documentation.
func Roles() []Role { return []Role{Tenant, Author, Viewer, Operator, Metrics} }

// maxPatterns bounds each list of patterns of a grant.
const maxPatterns = 100

// Grant is a role, and on which tenants and workloads it acts.
type Grant struct {
	Role      Role               `json:"role"`
	Tenants   []activity.Pattern `json:"tenants,omitempty"`   // none: all
	Workloads []activity.Pattern `json:"workloads,omitempty"` // none: all
	Claim     string             `json:"claim,omitempty"`     // limits a tenant's token to one claim
}

// Check returns an error that names what is wrong with a grant. A role that would
// act on everything by mistake is refused: a tenant's needs tenants, an author's
// workloads.
func (g Grant) Check() error {
	switch {
	case !slices.Contains(Roles(), g.Role):
		return fmt.Errorf("role %.40q: it is one of tenant, author, viewer, operator and metrics", string(g.Role))
	case len(g.Tenants) > maxPatterns || len(g.Workloads) > maxPatterns:
		return fmt.Errorf("role %s: at most %d patterns of tenants and of workloads", g.Role, maxPatterns)
	case g.Role == Tenant && len(g.Tenants) == 0:
		return fmt.Errorf("role tenant: name at least one tenant")
	case g.Role == Author && len(g.Workloads) == 0:
		return fmt.Errorf("role author: name at least one workload, or * for all")
	case g.Role == Author && len(g.Tenants) > 0:
		return fmt.Errorf("role author: it is for workloads, and not limited to tenants")
	case (g.Role == Operator || g.Role == Metrics) && len(g.Tenants)+len(g.Workloads) > 0:
		return fmt.Errorf("role %s: it is for the whole server, and not limited to tenants or workloads", g.Role)
	case g.Claim != "" && g.Role != Tenant:
		return fmt.Errorf("role %s: only a tenant's is limited to a claim", g.Role)
	}
	return nil
}

// selectors returns what the grant selects.
func (g Grant) selectors() []activity.Selector {
	orAll := func(patterns []activity.Pattern) []activity.Pattern {
		if len(patterns) == 0 {
			return []activity.Pattern{activity.Anything}
		}
		return patterns
	}
	var all []activity.Selector
	for _, tenant := range orAll(g.Tenants) {
		for _, workload := range orAll(g.Workloads) {
			all = append(all, activity.Selector{Tenant: tenant, Workload: workload, Claim: g.Claim, Owned: g.Role == Tenant})
		}
	}
	return all
}

// isUnlimited reports whether the grant acts on everything.
func (g Grant) isUnlimited() bool {
	return len(g.Tenants) == 0 && len(g.Workloads) == 0 && g.Claim == ""
}

// Principal is who sends a request. It does not change: one with other grants is
// another Principal.
type Principal struct {
	Actor   string // as activity.Actor's Name
	Name    string // for people: of the key, the certificate, the user
	Grants  []Grant
	Expires time.Time // zero: never
	Origin  any       // what the Authenticator that made it knows it by
}

// WithoutCredentials is the principal of a client that reaches a server without
// credentials on this machine.
func WithoutCredentials() *Principal {
	return &Principal{Actor: "local", Name: "local", Grants: []Grant{{Role: Operator}}}
}

// Has reports whether the principal has one of the roles, on anything.
func (p *Principal) Has(roles ...Role) bool {
	return p != nil && slices.ContainsFunc(p.Grants, func(g Grant) bool { return slices.Contains(roles, g.Role) })
}

// May reports whether one of the principal's grants has one of the roles and acts on
// something of a tenant, a workload and a claim, which are empty where it has none.
func (p *Principal) May(roles []Role, tenant, workload, claim string) bool {
	return p.Has(roles...) && p.Scope(roles).Includes(tenant, workload, claim)
}

// Scope returns on what the principal acts with the roles: nil if on everything.
func (p *Principal) Scope(roles []Role) *activity.Scope {
	scope := activity.Scope{}
	if p == nil {
		return &scope
	}
	for _, g := range p.Grants {
		if !slices.Contains(roles, g.Role) {
			continue
		}
		if g.isUnlimited() {
			return nil
		}
		scope = append(scope, g.selectors()...)
	}
	return &scope
}

// Tenant returns the tenant of the principal if its grants name exactly one.
func (p *Principal) Tenant() (name string, ok bool) {
	for _, g := range p.Grants {
		if g.Role != Tenant {
			continue
		}
		for _, pattern := range g.Tenants {
			n, single := pattern.Name()
			if !single || ok && n != name {
				return "", false
			}
			name, ok = n, true
		}
	}
	return name, ok
}

// Roles returns the roles of the principal, each once.
func (p *Principal) Roles() []Role {
	var roles []Role
	if p != nil {
		for _, g := range p.Grants {
			if !slices.Contains(roles, g.Role) {
				roles = append(roles, g.Role)
			}
		}
	}
	return roles
}

// JoinRoles returns roles as text: "tenant or operator", and "none".
func JoinRoles(roles []Role) string {
	if len(roles) == 0 {
		return "none"
	}
	text := string(roles[0])
	for i, r := range roles[1:] {
		if i == len(roles)-2 {
			text += " or " + string(r)
		} else {
			text += ", " + string(r)
		}
	}
	return text
}
