package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// Bindings creates, reads and deletes bindings.
type Bindings interface {
	PutBinding(ctx context.Context, b credential.Binding) (put credential.Binding, created bool, err error)
	Bindings(ctx context.Context) ([]credential.Binding, error)
	Binding(ctx context.Context, name string) (credential.Binding, error)
	DeleteBinding(ctx context.Context, name string) error
}

// BindingRequest is what a binding gives, and to whom.
type BindingRequest struct {
	Kind        string            `json:"kind" enum:"oidc,cert,unix" doc:"Whether it is for the holders of tokens of an issuer, of certificates, or for users of the machine."`
	Issuer      string            `json:"issuer,omitempty" maxLength:"500" doc:"Of oidc: the issuer of the tokens, exactly."`
	Subject     string            `json:"subject,omitempty" maxLength:"200" doc:"The token's sub, the certificate's name or the uid in decimal, or a prefix and a *. Default: each."`
	Claims      map[string]string `json:"claims,omitempty" maxProperties:"20" doc:"Of oidc: claims of the token that must each have a value that matches: the value, or a prefix and a *."`
	Role        string            `json:"role" enum:"tenant,author,viewer,operator,metrics" doc:"What the subjects may do."`
	Tenants     []string          `json:"tenants,omitempty" maxItems:"100" doc:"Names of tenants, or a prefix and a *."`
	Workloads   []string          `json:"workloads,omitempty" maxItems:"100" doc:"Ids of workloads, or a prefix and a *."`
	TenantClaim string            `json:"tenant_claim,omitempty" maxLength:"200" doc:"Of oidc with the role tenant: a claim of the token whose values are the tenants."`
}

type bindingPathIn struct {
	Name string `path:"name" maxLength:"64" doc:"The binding's name." example:"developers"`
}

type putBindingIn struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"The binding's name." example:"developers"`
	Body BindingRequest
}

type putBindingOut struct {
	Status int
	Body   credential.Binding
}

func (a *API) putBinding(ctx context.Context, in *putBindingIn) (*putBindingOut, error) {
	b, err := in.Body.binding(in.Name)
	if err != nil {
		return nil, err
	}
	b, created, err := a.o.Bindings.PutBinding(ctx, b)
	if err != nil {
		return nil, err
	}
	out := &putBindingOut{Status: http.StatusOK, Body: b}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// binding returns the binding that the request describes. What its fields may be
// together is checked by Bindings.
func (r BindingRequest) binding(name string) (credential.Binding, error) {
	b := credential.Binding{
		Name: name, Kind: auth.SubjectKind(r.Kind), Issuer: r.Issuer, Role: auth.Role(r.Role), TenantClaim: r.TenantClaim,
		Source: credential.Database,
	}
	var err error
	if b.Tenants, err = patterns("body.tenants", r.Tenants); err != nil {
		return b, err
	}
	if b.Workloads, err = patterns("body.workloads", r.Workloads); err != nil {
		return b, err
	}
	if r.Subject != "" {
		subject, err := activity.ParsePattern(r.Subject)
		if err != nil {
			return b, invalidf("body.subject: %v", err)
		}
		b.Subject = &subject
	}
	for claim, text := range r.Claims {
		value, err := activity.ParsePattern(text)
		if err != nil {
			return b, invalidf("body.claims.%.100s: %v", claim, err)
		}
		if b.Claims == nil {
			b.Claims = map[string]activity.Pattern{}
		}
		b.Claims[claim] = value
	}
	return b, nil
}

func (a *API) listBindings(ctx context.Context, in *struct{ Paging }) (*struct{ Body *Page[credential.Binding] }, error) {
	all, err := a.o.Bindings.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	page := pageOfAll(all, in.Paging, func(b credential.Binding) string { return b.Name })
	return &struct{ Body *Page[credential.Binding] }{page}, nil
}

func (a *API) getBinding(ctx context.Context, in *bindingPathIn) (*struct{ Body credential.Binding }, error) {
	b, err := a.o.Bindings.Binding(ctx, in.Name)
	if err != nil {
		return nil, bindingError(ctx, in.Name, err)
	}
	return &struct{ Body credential.Binding }{b}, nil
}

func (a *API) deleteBinding(ctx context.Context, in *bindingPathIn) (*struct{}, error) {
	return nil, bindingError(ctx, in.Name, a.o.Bindings.DeleteBinding(ctx, in.Name))
}

// bindingError turns the error of a binding that does not exist into its problem.
func bindingError(ctx context.Context, name string, err error) error {
	if errors.Is(err, credential.ErrNotFound) {
		return newProblem(ctx, BindingNotFound, "no such binding: "+quote(name))
	}
	return err
}
