package api

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/claim"
)

// WhoAmI is who sends a request.
type WhoAmI struct {
	Actor     string       `json:"actor" doc:"As events name it: key:NAME, token:ACTOR#TENANT, oidc:ISSUER#SUBJECT, cert:NAME, unix:UID, or local for a client of a server without credentials."`
	Name      string       `json:"name" doc:"For people."`
	Grants    []auth.Grant `json:"grants" doc:"What the credential permits."`
	ExpiresAt *time.Time   `json:"expires_at,omitempty" doc:"When the credential expires."`
}

func (*API) whoAmI(ctx context.Context, _ *struct{}) (*struct{ Body WhoAmI }, error) {
	p := auth.From(ctx)
	me := WhoAmI{Actor: p.Actor, Name: p.Name, Grants: p.Grants}
	if me.Grants == nil {
		me.Grants = []auth.Grant{}
	}
	if !p.Expires.IsZero() {
		me.ExpiresAt = &p.Expires
	}
	return &struct{ Body WhoAmI }{me}, nil
}

// Permitted is the answer to whether the caller may use an operation.
type Permitted struct {
	Operation string `json:"operation" doc:"The operation's id in this document."`
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason" doc:"Why, for people."`
}

type canIIn struct {
	Operation string `query:"operation" maxLength:"100" doc:"The operation's id in this document, such as claim or list-events. Give either this or verb and thing."`
	Verb      string `query:"verb" maxLength:"40" doc:"What to do, such as list, get, create or delete." example:"create"`
	Thing     string `query:"thing" maxLength:"40" doc:"With what, such as claim or workload." example:"claim"`
	Tenant    string `query:"tenant" maxLength:"200" doc:"On something of this tenant."`
	Workload  string `query:"workload" maxLength:"128" doc:"On something of this workload."`
	Claim     string `query:"claim" maxLength:"128" doc:"On this claim."`
}

func (a *API) canI(ctx context.Context, in *canIIn) (*struct{ Body Permitted }, error) {
	id, err := in.operation()
	if err != nil {
		return nil, err
	}
	allowed, reason, err := a.permits(ctx, auth.From(ctx), rules[id], in)
	if err != nil {
		return nil, err
	}
	return &struct{ Body Permitted }{Permitted{id, allowed, reason}}, nil
}

// operation returns the id of the operation that is asked for.
func (in *canIIn) operation() (string, error) {
	if (in.Operation == "") == (in.Verb == "" && in.Thing == "") {
		return "", invalidf("query.operation: name an operation, or a verb and a thing")
	}
	if in.Operation != "" {
		if _, ok := rules[in.Operation]; !ok {
			return "", invalidf("query.operation: %s is no operation; GET /openapi.json has them as operationId", quote(in.Operation))
		}
		return in.Operation, nil
	}
	id, ok := OperationOf(in.Verb, in.Thing)
	if !ok {
		return "", invalidf("query.verb: %s of %s is no operation; known are %s", quote(in.Verb), quote(in.Thing), Verbs())
	}
	return id, nil
}

// permits reports whether a principal may use an operation on what is named. What is
// not named may be anything on which the principal acts. For a claim of others the
// answer is that for one that does not exist.
func (a *API) permits(ctx context.Context, p *auth.Principal, r rule, on *canIIn) (allowed bool, reason string, err error) {
	if r.on == onPublic || r.on == onAny {
		return true, "every client may", nil
	}
	if !p.Has(r.roles...) {
		return false, roleProblem(ctx, p, r.roles).Detail, nil
	}
	scope := p.Scope(r.roles)
	if scope == nil || r.on == onServer {
		return true, "a role of the credential permits it", nil
	}
	if !includesSome(scope, on.Tenant, on.Workload, on.Claim) {
		return false, "the credential is for other tenants, workloads or claims", nil
	}
	if on.Claim == "" {
		return true, "within the tenants and workloads of the credential", nil
	}
	c, err := a.o.Claims.Claim(ctx, on.Claim)
	if err != nil && !errors.Is(err, claim.ErrClaimNotFound) {
		return false, "", err
	}
	if err != nil || !scope.Includes(c.Tenant, c.Workload, c.ID) ||
		on.Tenant != "" && on.Tenant != c.Tenant || on.Workload != "" && on.Workload != c.Workload {
		return false, "the credential has no such claim", nil
	}
	return true, "it is a claim of the credential's", nil
}

// includesSome reports whether a scope includes something of the tenant, workload and
// claim, each of which may be empty: any.
func includesSome(scope *activity.Scope, tenant, workload, claim string) bool {
	for _, s := range *scope {
		if (tenant == "" || s.Tenant.Matches(tenant)) && (workload == "" || s.Workload.Matches(workload)) &&
			(claim == "" || s.Claim == "" || s.Claim == claim) {
			return true
		}
	}
	return false
}
