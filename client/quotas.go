package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// QuotaLevel is whom a quota is for.
type QuotaLevel string

// The levels of quotas.
const (
	QuotaTenant   QuotaLevel = "tenant"
	QuotaKey      QuotaLevel = "key"
	QuotaWorkload QuotaLevel = "workload"
)

// Limits are the limits of a tenant, a key or a workload. One that is nil is the
// server's default, and -1 is no limit.
type Limits struct {
	Claims            *int64 `json:"claims,omitempty"`              // that are live
	ClaimsPerMinute   *int64 `json:"claims_per_minute,omitempty"`   // added in the last minute
	State             *int64 `json:"state_bytes,omitempty"`         // that current snapshots occupy
	RequestsPerSecond *int64 `json:"requests_per_second,omitempty"` // of one server
}

// QuotaOverride are the limits that a tenant, a key or a workload has of its own.
type QuotaOverride struct {
	Level     QuotaLevel `json:"level"`
	Name      string     `json:"name"`
	Limits    Limits     `json:"limits"`
	UpdatedAt time.Time  `json:"updated_at"`
}

// QuotaUsage is what a tenant, a key or a workload uses.
type QuotaUsage struct {
	Claims          int64 `json:"claims"`
	ClaimsPerMinute int64 `json:"claims_per_minute"`
	State           int64 `json:"state_bytes"`
}

// Quota is a quota and its use.
type Quota struct {
	Level    QuotaLevel `json:"level"`
	Name     string     `json:"name"`
	Limits   Limits     `json:"limits"`             // that apply
	Override *Limits    `json:"override,omitempty"` // of its own
	Usage    QuotaUsage `json:"usage"`
}

// Quotas lists the quotas that win over the server's defaults.
func (c *Client) Quotas(ctx context.Context) ([]QuotaOverride, error) {
	return listAll[QuotaOverride](ctx, c, "/v1/quotas", url.Values{}, 0)
}

// Quota is one quota, whether or not it is the server's default.
func (c *Client) Quota(ctx context.Context, level QuotaLevel, name string) (Quota, error) {
	return get[Quota](ctx, c, path("/v1/quotas", string(level), name))
}

// SetQuota replaces the limits of a tenant, a key or a workload.
func (c *Client) SetQuota(ctx context.Context, level QuotaLevel, name string, l Limits) (Quota, error) {
	body, err := encode(l)
	if err != nil {
		return Quota{}, err
	}
	out, _, err := doJSON[Quota](ctx, c, call{
		method: http.MethodPut, path: path("/v1/quotas", string(level), name), body: body,
		header: http.Header{"Content-Type": {"application/json"}},
	})
	return out, err
}

// DeleteQuota removes them, and returns what applies.
func (c *Client) DeleteQuota(ctx context.Context, level QuotaLevel, name string) (Quota, error) {
	out, _, err := doJSON[Quota](ctx, c, call{method: http.MethodDelete, path: path("/v1/quotas", string(level), name), noRetry: true})
	return out, err
}
