package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Role is what a credential is to a server.
type Role string

// The roles.
const (
	RoleTenant   Role = "tenant"
	RoleAuthor   Role = "author"
	RoleViewer   Role = "viewer"
	RoleOperator Role = "operator"
	RoleMetrics  Role = "metrics"
)

// Grant is a role, and on which tenants and workloads it acts: names, or prefixes
// that a * follows. None are all.
type Grant struct {
	Role      Role     `json:"role"`
	Tenants   []string `json:"tenants,omitempty"`
	Workloads []string `json:"workloads,omitempty"`
	Claim     string   `json:"claim,omitempty"` // limits a token to one claim
}

// Key is a key without its secret.
type Key struct {
	Name       string     `json:"name"`
	Grants     []Grant    `json:"grants"`
	Prefix     string     `json:"prefix,omitempty"` // the beginning of the key
	Source     string     `json:"source"`           // database or file
	CreatedAt  *time.Time `json:"created_at,omitempty"`
	CreatedBy  string     `json:"created_by,omitempty"` // the actor
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // to the minute
}

// KeyRequest is the request for a key.
type KeyRequest struct {
	Name      string
	Role      Role
	Tenants   []string // RoleTenant needs at least one
	Workloads []string // RoleAuthor needs at least one
	ExpiresIn time.Duration
}

// keyBody is a KeyRequest in JSON.
type keyBody struct {
	Name      string   `json:"name"`
	Role      Role     `json:"role"`
	Tenants   []string `json:"tenants,omitempty"`
	Workloads []string `json:"workloads,omitempty"`
	ExpiresIn string   `json:"expires_in,omitempty"`
}

// CreatedKey is a new key. Only its creator gets the key itself.
type CreatedKey struct {
	Key
	Secret string `json:"key"`
	// Closed reports whether the server accepted each client of its machine before,
	// and requires a credential from here on.
	Closed bool `json:"closed,omitempty"`
}

// CreateKey creates a key. It is not repeated when the connection breaks: the key
// may exist then, and what was created is not shown again.
func (c *Client) CreateKey(ctx context.Context, r KeyRequest) (CreatedKey, error) {
	body, err := encode(keyBody{r.Name, r.Role, r.Tenants, r.Workloads, durationText(r.ExpiresIn)})
	if err != nil {
		return CreatedKey{}, err
	}
	out, _, err := doJSON[CreatedKey](ctx, c, call{
		method: http.MethodPost, path: "/v1/keys", body: body, header: http.Header{"Content-Type": {"application/json"}}, noRetry: true,
	})
	return out, err
}

// durationText returns a duration as the server reads it: empty for 0.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Keys lists the keys by name.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	return listAll[Key](ctx, c, "/v1/keys", url.Values{}, 0)
}

// Key is one key.
func (c *Client) Key(ctx context.Context, name string) (Key, error) {
	return get[Key](ctx, c, path("/v1/keys", name))
}

// RevokeKey revokes a key. To revoke it again changes nothing.
func (c *Client) RevokeKey(ctx context.Context, name string) (Key, error) {
	out, _, err := doJSON[Key](ctx, c, call{method: http.MethodDelete, path: path("/v1/keys", name)})
	return out, err
}

// TokenRequest is the request for a token.
type TokenRequest struct {
	Tenant    string        // empty: that of the credential, if it is for exactly one
	Workloads []string      // none: those of the credential
	Claim     string        // limits it to one claim
	ExpiresIn time.Duration // 0: 15 minutes
}

type tokenBody struct {
	Tenant    string   `json:"tenant,omitempty"`
	Workloads []string `json:"workloads,omitempty"`
	Claim     string   `json:"claim,omitempty"`
	ExpiresIn string   `json:"expires_in,omitempty"`
}

// Token is a short-lived credential of a tenant.
type Token struct {
	Token     string    `json:"token"`
	Tenant    string    `json:"tenant"`
	Claim     string    `json:"claim,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// CreateToken makes a token.
func (c *Client) CreateToken(ctx context.Context, r TokenRequest) (Token, error) {
	out, _, err := post[Token](ctx, c, "/v1/tokens", tokenBody{r.Tenant, r.Workloads, r.Claim, durationText(r.ExpiresIn)})
	return out, err
}

// WhoAmI is who a client is to the server.
type WhoAmI struct {
	Actor     string     `json:"actor"` // as events name it
	Name      string     `json:"name"`
	Grants    []Grant    `json:"grants"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// WhoAmI returns who this client is to the server.
func (c *Client) WhoAmI(ctx context.Context) (WhoAmI, error) {
	return get[WhoAmI](ctx, c, "/v1/whoami")
}

// Question is what a client may want to do. What is not named is any on which its
// credential acts.
type Question struct {
	Operation   string // an operation's id, or a verb and a thing
	Verb, Thing string // such as create and claim

	Tenant, Workload, Claim string
}

// Permitted is the answer to a Question.
type Permitted struct {
	Operation string `json:"operation"`
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason"`
}

// CanI returns whether this client may do something.
func (c *Client) CanI(ctx context.Context, q Question) (Permitted, error) {
	out, _, err := doJSON[Permitted](ctx, c, call{method: http.MethodGet, path: "/v1/can-i", query: values(
		"operation", q.Operation, "verb", q.Verb, "thing", q.Thing, "tenant", q.Tenant, "workload", q.Workload, "claim", q.Claim)})
	return out, err
}
