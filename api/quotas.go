package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/quota"
)

// Quotas reads and changes quotas, and limits requests.
type Quotas interface {
	List(ctx context.Context) ([]quota.Override, error)
	Get(ctx context.Context, s quota.Scope) (quota.Quota, error)
	Set(ctx context.Context, s quota.Scope, l quota.Limits) (quota.Quota, error)
	Delete(ctx context.Context, s quota.Scope) error
	// AllowRequest returns a *quota.ExceededError if the sender of a request has
	// sent too many.
	AllowRequest(ctx context.Context, from quota.Sender) error
}

// QuotaPath names a quota.
type QuotaPath struct {
	Level string `path:"level" enum:"tenant,key,workload" doc:"Whom the quota is for."`
	Name  string `path:"name" maxLength:"400" doc:"Of the tenant or the workload; of a key, its name." example:"alice"`
}

type quotaOut struct{ Body quota.Quota }

func (a *API) quotaRoutes() {
	handle(a, op("list-quotas", "GET /v1/quotas", "List quotas"), a.listQuotas)
	handle(a, op("get-quota", "GET "+quotaRoute, "Show a quota and its use"), a.getQuota)
	handle(a, op("set-quota", "PUT "+quotaRoute, "Set a quota"), a.setQuota)
	handle(a, op("delete-quota", "DELETE "+quotaRoute, "Remove a quota"), a.deleteQuota)
}

// quotaRoute is the path of a quota, whose name may have slashes that are escaped.
const quotaRoute = "/v1/quotas/{level}/{name}"

// scope returns the scope that a path names, if the request may read its quota: a
// tenant's is read by the tenant, a key's by its holder.
func (in *QuotaPath) scope(ctx context.Context) (quota.Scope, error) {
	s, err := quota.NewScope(quota.Level(in.Level), in.Name)
	if err != nil || mayReadQuota(ctx, s) {
		return s, err
	}
	return s, errOthers(ctx)
}

func mayReadQuota(ctx context.Context, s quota.Scope) bool {
	switch s.Level {
	case quota.Tenant:
		return scopeOf(ctx).Includes(s.Name, "", "")
	case quota.Workload:
		return auth.From(ctx).Has(viewers...) && scopeOf(ctx).Includes("", s.Name, "")
	}
	// A token has no part in what its maker does for others.
	return scopeOf(ctx) == nil || s.Name == activity.ActorOf(ctx).Name
}

func (a *API) listQuotas(ctx context.Context, in *struct{ Paging }) (*struct{ Body *Page[quota.Override] }, error) {
	all, err := a.o.Quotas.List(ctx)
	if err != nil {
		return nil, err
	}
	var items []quota.Override
	for _, o := range all {
		if mayReadQuota(ctx, o.Scope) {
			items = append(items, o)
		}
	}
	page := pageOfAll(items, in.Paging, func(o quota.Override) string { return string(o.Level) + "/" + o.Name })
	return &struct{ Body *Page[quota.Override] }{page}, nil
}

func (a *API) getQuota(ctx context.Context, in *QuotaPath) (*quotaOut, error) {
	s, err := in.scope(ctx)
	if err != nil {
		return nil, err
	}
	return answerQuota(a.o.Quotas.Get(ctx, s))
}

func (a *API) setQuota(ctx context.Context, in *struct {
	QuotaPath
	Body quota.Limits
}) (*quotaOut, error) {
	s, err := in.scope(ctx)
	if err != nil {
		return nil, err
	}
	return answerQuota(a.o.Quotas.Set(ctx, s, in.Body))
}

func (a *API) deleteQuota(ctx context.Context, in *QuotaPath) (*quotaOut, error) {
	s, err := in.scope(ctx)
	if err == nil {
		err = a.o.Quotas.Delete(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return answerQuota(a.o.Quotas.Get(ctx, s))
}

func answerQuota(s quota.Quota, err error) (*quotaOut, error) {
	if err != nil {
		return nil, err
	}
	return &quotaOut{s}, nil
}

// sendersOf returns whose a request of an actor is: the maker's of its token, and then
// the token's. The tokens that a key makes for one tenant are one sender, those for
// several tenants are several.
func sendersOf(actor string) []string {
	if maker := quota.KeyOf(actor); maker != "" && maker != actor {
		return []string{maker, actor}
	}
	return []string{actor}
}

// limitRequests refuses a request of a principal that has sent too many, or uses too
// many connections. The claim is that of a link, whose tenant the request counts for;
// probes have no principal and no limit.
func (a *API) limitRequests(ctx context.Context, p *auth.Principal, claim string) *Problem {
	if p == nil {
		return nil
	}
	from := quota.Sender{Key: quota.KeyOf(p.Actor), IsOperator: p.Has(auth.Operator)}
	from.Tenant, _ = p.Tenant()
	senders := sendersOf(p.Actor)
	if p.Actor == linkActor {
		// A link is signed: no id is guessed with it. Its connections are those of who
		// claimed.
		c, err := a.o.Claims.Claim(ctx, claim)
		if err != nil {
			return nil // authorizeClaim answers
		}
		from.Tenant = c.Tenant
		senders = []string{cmp.Or(quota.KeyOf(c.Actor), c.Actor), linkActor + " " + claim}
	}
	if authenticated, ok := ctx.Value(authenticatedKey{}).(func(...string) bool); ok && !authenticated(senders...) {
		refused := newProblem(ctx, TooManyRequests, "the credential uses too many connections: wait until some of its requests have ended")
		refused.retry = defaultRetryAfter
		return refused
	}
	if a.o.Quotas == nil {
		return nil
	}
	if err := a.o.Quotas.AllowRequest(ctx, from); err != nil {
		return a.problem(ctx, err)
	}
	return nil
}

// classifyQuota fills in a problem for a quota that is exceeded.
func classifyQuota(e *quota.ExceededError, p *Problem) Code {
	p.Quota, p.Limit, p.retry = e.Quota(), &e.Limit, e.RetryAfter
	if e.Kind == quota.Requests {
		return RateLimited
	}
	p.Current = &e.Current
	return QuotaExceeded
}

// hideQuota removes from a problem of a claim what a quota that the request may not
// read has of others: how many claims they have.
func hideQuota(ctx context.Context, err error, p *Problem) {
	exceeded, ok := errors.AsType[*quota.ExceededError](err)
	if ok && exceeded.Kind != quota.Requests && !mayReadQuota(ctx, exceeded.Scope) {
		p.Limit, p.Current, p.Detail = nil, nil, "quota of "+exceeded.Quota()+": it is used up"
	}
}

// isCleanQuotaPath reports whether no part of the escaped path is empty or has dots
// only.
func isCleanQuotaPath(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}
