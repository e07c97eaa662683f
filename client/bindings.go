package client

import (
	"context"
	"net/http"
	"net/url"
)

// Binding gives a role to the holders of tokens of other issuers, of certificates, or
// to users of the server's machine.
type Binding struct {
	Name        string            `json:"name,omitempty"`
	Kind        string            `json:"kind"`              // oidc, cert or unix
	Issuer      string            `json:"issuer,omitempty"`  // of oidc, exactly
	Subject     string            `json:"subject,omitempty"` // empty: each
	Claims      map[string]string `json:"claims,omitempty"`  // of oidc: each must have a value that matches
	Role        Role              `json:"role"`
	Tenants     []string          `json:"tenants,omitempty"`
	Workloads   []string          `json:"workloads,omitempty"`
	TenantClaim string            `json:"tenant_claim,omitempty"` // of oidc: its values are tenants
	Source      string            `json:"source,omitempty"`       // database or file
}

// PutBinding adds the binding, or replaces the one of its name.
func (c *Client) PutBinding(ctx context.Context, b Binding) (put Binding, created bool, err error) {
	name := b.Name
	b.Name, b.Source = "", "" // neither is part of the body
	body, err := encode(b)
	if err != nil {
		return put, false, err
	}
	put, status, err := doJSON[Binding](ctx, c, call{
		method: http.MethodPut, path: path("/v1/bindings", name), body: body, header: http.Header{"Content-Type": {"application/json"}},
	})
	return put, status == http.StatusCreated, err
}

// Bindings lists the bindings by name.
func (c *Client) Bindings(ctx context.Context) ([]Binding, error) {
	return listAll[Binding](ctx, c, "/v1/bindings", url.Values{}, 0)
}

// Binding is one binding.
func (c *Client) Binding(ctx context.Context, name string) (Binding, error) {
	return get[Binding](ctx, c, path("/v1/bindings", name))
}

// DeleteBinding deletes a binding.
func (c *Client) DeleteBinding(ctx context.Context, name string) error {
	_, _, err := doJSON[struct{}](ctx, c, call{method: http.MethodDelete, path: path("/v1/bindings", name), noRetry: true})
	return err
}
