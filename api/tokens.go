package api

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/claim"
)

// TokenRequest is the request for a token.
type TokenRequest struct {
	Tenant    string   `json:"tenant,omitempty" maxLength:"200" doc:"The tenant that the token acts for. Default: that of the credential, if it is for exactly one."`
	Workloads []string `json:"workloads,omitempty" maxItems:"100" doc:"Limits the token to these workloads: ids, or a prefix and a *."`
	Claim     string   `json:"claim,omitempty" maxLength:"128" doc:"Limits the token to this claim of the tenant."`
	ExpiresIn Duration `json:"expires_in,omitempty" doc:"How long the token is accepted, at most 1h. Default: 15m."`
}

type createTokenIn struct{ Body TokenRequest }

type createTokenOut struct {
	Status int
	Body   credential.Token
}

func (a *API) createToken(ctx context.Context, in *createTokenIn) (*createTokenOut, error) {
	maker := auth.From(ctx)
	t := credential.NewToken{Tenant: in.Body.Tenant, Claim: in.Body.Claim, ExpiresIn: in.Body.ExpiresIn.Duration}
	if t.Tenant == "" {
		own, ok := maker.Tenant()
		if !ok {
			return nil, invalidf("body.tenant: name the tenant; the credential is not for exactly one")
		}
		t.Tenant = own
	}
	if t.ExpiresIn == 0 {
		t.ExpiresIn = credential.DefaultTokenTTL
	}
	if t.ExpiresIn < 0 || t.ExpiresIn > credential.MaxTokenTTL {
		return nil, invalidf("body.expires_in: %s is not between 0 and %s", t.ExpiresIn, credential.MaxTokenTTL)
	}
	var err error
	if t.Workloads, err = patterns("body.workloads", in.Body.Workloads); err != nil {
		return nil, err
	}
	if err := a.permitToken(ctx, t); err != nil {
		return nil, err
	}
	token, err := a.o.Keys.CreateToken(ctx, maker, t)
	if errors.Is(err, credential.ErrForbidden) {
		markDenied(ctx, deniedScope)
	}
	if err != nil {
		return nil, err
	}
	return &createTokenOut{Status: 201, Body: token}, nil
}

// permitToken returns a problem if the maker of a token may not act for its tenant,
// or on its claim. The workloads are limited by the maker's own grants.
func (a *API) permitToken(ctx context.Context, t credential.NewToken) error {
	if scope := scopeOf(ctx); scope != nil && !slices.ContainsFunc(*scope, func(s activity.Selector) bool {
		return s.Tenant.Matches(t.Tenant) && (s.Claim == "" || s.Claim == t.Claim)
	}) {
		markDenied(ctx, deniedScope)
		return newProblem(ctx, Forbidden, "body.tenant: the credential is for other tenants or claims")
	}
	if t.Claim == "" {
		return nil
	}
	c, err := a.o.Claims.Claim(ctx, t.Claim)
	if err != nil && !errors.Is(err, claim.ErrClaimNotFound) {
		return err
	}
	if err != nil || c.Tenant != t.Tenant || !scopeOf(ctx).Includes(c.Tenant, c.Workload, c.ID) {
		if err == nil {
			markDenied(ctx, deniedScope)
		}
		return newProblem(ctx, ClaimNotFound, "body.claim: the tenant has no such claim: "+quote(t.Claim))
	}
	return nil
}
