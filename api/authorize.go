package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/wait"
)

// authorizers check whose the thing is that a request acts on, by the object of its
// rule, for principals that do not act on everything. A rule with an object that has
// no row permits nothing.
var authorizers = map[object]func(a *API, r *http.Request, roles []auth.Role) *Problem{
	onServer:    authorizeServer,
	onList:      authorizeList,
	onNamed:     func(*API, *http.Request, []auth.Role) *Problem { return nil }, // see permit
	onWorkload:  authorizeName("id"),
	onPool:      authorizeName("workload"),
	onClaim:     authorizeThing(claims),
	onContainer: authorizeThing(containers),
	onRun:       authorizeThing(runs),
	onWait:      authorizeThing(waits),
	onDelivery:  authorizeThing(deliveries),
}

// authorizeServer refuses who does not act on the whole server: what is about it
// names everyone's things.
func authorizeServer(_ *API, r *http.Request, roles []auth.Role) *Problem {
	return newProblem(r.Context(), Forbidden, "this needs the role "+auth.JoinRoles(roles)+" without limits of tenants and workloads")
}

// authorizeList refuses a filter that names a tenant of others. A list is otherwise
// limited by its scope: that of others' ids is empty.
func authorizeList(_ *API, r *http.Request, _ []auth.Role) *Problem {
	for _, tenant := range r.URL.Query()["tenant"] {
		if tenant != "" && !namesTenant(*scopeOf(r.Context()), tenant) {
			return errOthers(r.Context())
		}
	}
	return nil
}

// namesTenant reports whether a scope has things of a tenant.
func namesTenant(s activity.Scope, tenant string) bool {
	for _, row := range s {
		if row.Tenant.Matches(tenant) {
			return true
		}
	}
	return false
}

// authorizeName permits a request to a workload by its name alone: the answer is the
// same whether or not there is such a workload.
func authorizeName(parameter string) func(*API, *http.Request, []auth.Role) *Problem {
	return func(_ *API, r *http.Request, _ []auth.Role) *Problem {
		if !isOwnWorkload(scopeOf(r.Context()), r.PathValue(parameter)) {
			return errOthers(r.Context())
		}
		return nil
	}
}

// isOwnWorkload reports whether a scope includes a workload as a whole.
func isOwnWorkload(s *activity.Scope, id string) bool { return s.Includes("", id, "") }

// owner is whose a thing is. A field is empty where it has none.
type owner struct{ tenant, workload, claim string }

// things are the things of a kind, which have ids.
type things struct {
	missing Code // for one that does not exist, and for one of others
	text    string
	err     error // of owners, if there is none
	// owners returns whose a thing is. One that consists of several needs all.
	owners func(ctx context.Context, a *API, id string) ([]owner, error)
}

var (
	claims = things{ClaimNotFound, "no such claim", claim.ErrClaimNotFound, func(ctx context.Context, a *API, id string) ([]owner, error) {
		c, err := a.o.Claims.Claim(ctx, id)
		return []owner{{c.Tenant, c.Workload, c.ID}}, err
	}}
	containers = things{ContainerNotFound, "no such container", pool.ErrContainerNotFound, func(ctx context.Context, a *API, id string) ([]owner, error) {
		c, err := a.o.Containers.Container(ctx, id)
		return []owner{{c.Tenant, c.Workload, c.Claim}}, err
	}}
	runs = things{RunNotFound, "no such hook run", errRunNotFound, func(ctx context.Context, a *API, id string) (all []owner, err error) {
		attempts, err := a.o.Runs.Run(ctx, id)
		for _, r := range attempts {
			all = append(all, owner{r.Tenant, r.Workload, r.Claim})
		}
		return all, err
	}}
	waits = things{WaitNotFound, "no such wait", wait.ErrNotFound, func(ctx context.Context, a *API, id string) ([]owner, error) {
		w, err := a.o.Waits.Get(ctx, id)
		return []owner{{w.Tenant, w.Workload, w.Claim}}, err
	}}
	deliveries = things{DeliveryNotFound, "no such delivery", delivery.ErrNotFound, func(ctx context.Context, a *API, id string) ([]owner, error) {
		d, err := a.o.Deliveries.Delivery(ctx, id)
		return []owner{{d.Tenant, d.Workload, d.Claim}}, err
	}}
)

// authorizeThing permits a request to a thing whose id is in the path.
func authorizeThing(kind things) func(*API, *http.Request, []auth.Role) *Problem {
	return func(a *API, r *http.Request, roles []auth.Role) *Problem {
		return a.authorizeID(r.Context(), kind, auth.From(r.Context()).Scope(roles), r.PathValue("id"))
	}
}

// authorizeID permits a request that acts on a thing. What is not in the scope is
// answered as what does not exist, in the same place: the two have the same text.
func (a *API) authorizeID(ctx context.Context, kind things, scope *activity.Scope, id string) *Problem {
	if scope == nil {
		return nil
	}
	owners, err := kind.owners(ctx, a, id)
	if err != nil && !errors.Is(err, kind.err) {
		return a.problem(ctx, err)
	}
	isOwn := err == nil && len(owners) > 0
	for _, o := range owners {
		isOwn = isOwn && scope.Includes(o.tenant, o.workload, o.claim)
	}
	if !isOwn {
		return newProblem(ctx, kind.missing, kind.text+": "+quote(id))
	}
	return nil
}

// authorizePort permits a request to a port of a claim.
func (a *API) authorizePort(r *http.Request, claim string) *Problem {
	roles := rules["connect-port"].roles
	p := auth.From(r.Context())
	if !p.Has(roles...) {
		return roleProblem(r.Context(), p, roles)
	}
	return a.authorizeID(r.Context(), claims, p.Scope(roles), claim)
}

// permit returns a problem if a request may not act on what it names.
func permit(ctx context.Context, tenant, workload, claim string) error {
	if scopeOf(ctx).Includes(tenant, workload, claim) {
		return nil
	}
	return errOthers(ctx)
}

// permitClaim returns a problem if a request may not act on the claim that it names.
func (a *API) permitClaim(ctx context.Context, id string) error {
	if p := a.authorizeID(ctx, claims, scopeOf(ctx), id); p != nil {
		return p
	}
	return nil
}

// permitNew returns the tenant of a request for a claim, or a problem. A workload
// that is not the tenant's is answered as one that does not exist.
func permitNew(ctx context.Context, tenant, workload string) (string, error) {
	scope := scopeOf(ctx)
	if tenant == "" {
		own, ok := auth.From(ctx).Tenant()
		if !ok || scope == nil {
			return "", invalidf("body.tenant: name the tenant; the credential is not for exactly one")
		}
		tenant = own
	}
	if scope == nil || scope.Includes(tenant, workload, "") {
		return tenant, nil
	}
	for _, row := range *scope {
		if row.Tenant.Matches(tenant) && row.Claim == "" {
			return "", noWorkload(ctx, workload)
		}
	}
	return "", errOthers(ctx)
}

// noWorkload returns the problem of a workload that does not exist, or not for this
// tenant.
func noWorkload(ctx context.Context, id string) error {
	return newProblem(ctx, WorkloadNotFound, "no such workload: "+quote(id))
}

func errOthers(ctx context.Context) *Problem {
	return newProblem(ctx, Forbidden, "the credential is for other tenants or workloads")
}
