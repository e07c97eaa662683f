package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// path joins a fixed beginning with ids.
func path(begin string, ids ...string) string {
	for _, id := range ids {
		begin += "/" + url.PathEscape(id)
	}
	return begin
}

// Workloads lists all workloads by id.
func (c *Client) Workloads(ctx context.Context) ([]Workload, error) {
	return listAll[Workload](ctx, c, "/v1/workloads", url.Values{}, 0)
}

// Workload is one workload.
func (c *Client) Workload(ctx context.Context, id string) (Workload, error) {
	return get[Workload](ctx, c, path("/v1/workloads", id))
}

// Apply applies a workload file whose id is id.
func (c *Client) Apply(ctx context.Context, id string, source []byte) (AppliedWorkload, error) {
	out, _, err := doJSON[AppliedWorkload](ctx, c, call{
		method: http.MethodPut, path: path("/v1/workloads", id), body: source,
		header: http.Header{"Content-Type": {"application/yaml"}},
	})
	return out, err
}

// PlanApply returns what Apply would do and return, and changes nothing.
func (c *Client) PlanApply(ctx context.Context, id string, source []byte) (AppliedWorkload, error) {
	out, _, err := doJSON[AppliedWorkload](ctx, c, call{
		method: http.MethodPut, path: path("/v1/workloads", id), query: url.Values{"dry_run": {"true"}}, body: source,
		header: http.Header{"Content-Type": {"application/yaml"}},
	})
	return out, err
}

// DeleteWorkload deletes a workload. It is gone only when gone is true, else
// it goes with its last container.
func (c *Client) DeleteWorkload(ctx context.Context, id string) (gone bool, err error) {
	_, status, err := doJSON[Workload](ctx, c, call{method: http.MethodDelete, path: path("/v1/workloads", id)})
	return status == http.StatusNoContent, err
}

// Pools lists all pools by workload.
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	return listAll[Pool](ctx, c, "/v1/pools", url.Values{}, 0)
}

// Pool is one pool.
func (c *Client) Pool(ctx context.Context, workload string) (Pool, error) {
	return get[Pool](ctx, c, path("/v1/pools", workload))
}

// Scale changes a pool's bounds.
func (c *Client) Scale(ctx context.Context, workload string, s Scale) (Pool, error) {
	out, _, err := post[Pool](ctx, c, path("/v1/pools", workload)+"/scale", s)
	return out, err
}

// Drain empties a pool.
func (c *Client) Drain(ctx context.Context, workload string) (Pool, error) {
	out, _, err := post[Pool](ctx, c, path("/v1/pools", workload)+"/drain", nil)
	return out, err
}

// Containers lists the containers that match.
func (c *Client) Containers(ctx context.Context, f ContainerFilter) ([]Container, error) {
	q := values("workload", f.Workload, "tenant", f.Tenant, "state", joined(f.States), "after", f.After, "id", f.IDPart, "order", order(f.Newest))
	return listAll[Container](ctx, c, "/v1/containers", q, f.Limit)
}

// Container is one container.
func (c *Client) Container(ctx context.Context, id string) (Container, error) {
	return get[Container](ctx, c, path("/v1/containers", id))
}

// DestroyContainer destroys a container after its pre_destroy hooks; a claimed one
// only with force.
func (c *Client) DestroyContainer(ctx context.Context, id string, force bool) (Container, error) {
	return c.destroyContainer(ctx, id, url.Values{"force": {strconv.FormatBool(force)}})
}

// DestroyContainerNow is DestroyContainer without the pre_destroy hooks; those
// that run are ended.
func (c *Client) DestroyContainerNow(ctx context.Context, id string, force bool) (Container, error) {
	return c.destroyContainer(ctx, id, url.Values{"force": {strconv.FormatBool(force)}, "now": {"true"}})
}

func (c *Client) destroyContainer(ctx context.Context, id string, query url.Values) (Container, error) {
	out, _, err := doJSON[Container](ctx, c, call{method: http.MethodDelete, path: path("/v1/containers", id), query: query})
	return out, err
}

// ContainerLogs reads the last tail bytes of what a container printed.
func (c *Client) ContainerLogs(ctx context.Context, id string, tail int64) (io.ReadCloser, error) {
	resp, err := c.do(ctx, call{
		method: http.MethodGet, path: path("/v1/containers", id) + "/logs", query: url.Values{"tail": {strconv.FormatInt(tail, 10)}},
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// claimRequest is the body of a claim.
type claimRequest struct {
	Workload string `json:"workload"`
	Tenant   string `json:"tenant,omitempty"`
	Wait     string `json:"wait,omitempty"`

	RequestID   string            `json:"request_id"`
	Labels      map[string]string `json:"labels,omitempty"`
	Parameters  map[string]string `json:"parameters,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	ExpiresIn   string            `json:"expires_in,omitempty"`
}

func newClaimRequest(workload, tenant string, wait time.Duration) claimRequest {
	r := claimRequest{Workload: workload, Tenant: tenant, RequestID: rand.Text()}
	switch {
	case wait == NoWait:
		r.Wait = "0s"
	case wait != 0:
		r.Wait = wait.String()
	}
	return r
}

// NoWait, as the wait of a claim, claims a container that is idle, or none. A wait
// of 0 is the server's default: up to 2 minutes for a container that is being
// created, and no time when every container is in use.
const NoWait time.Duration = -1

// Claim requests a container and returns when the claim is active. Asking for
// what the tenant holds already returns it, with created false: another program may
// use it, so do not release it. wait is how long to wait for a container; see NoWait.
func (c *Client) Claim(ctx context.Context, workload, tenant string, wait time.Duration) (out Claim, created bool, err error) {
	out, status, err := post[Claim](ctx, c, "/v1/claims", newClaimRequest(workload, tenant, wait))
	return out, status == http.StatusCreated, err
}

// Claims lists the claims that match.
func (c *Client) Claims(ctx context.Context, f ClaimFilter) ([]Claim, error) {
	q := values("workload", f.Workload, "tenant", f.Tenant, "container", f.Container, "state", joined(f.States), "after", f.After, "id", f.IDPart, "order", order(f.Newest))
	addLabels(q, f.Labels)
	return listAll[Claim](ctx, c, "/v1/claims", q, f.Limit)
}

// GetClaim is one claim.
func (c *Client) GetClaim(ctx context.Context, id string) (Claim, error) {
	return get[Claim](ctx, c, path("/v1/claims", id))
}

// Touch records that a claim is still in use, for pools with a claim_idle_ttl.
func (c *Client) Touch(ctx context.Context, id string) (Claim, error) {
	out, _, err := post[Claim](ctx, c, path("/v1/claims", id)+"/touch", struct{}{})
	return out, err
}

// Sync takes the state of an active claim into a snapshot at once.
func (c *Client) Sync(ctx context.Context, id string) (Synced, error) {
	out, _, err := post[Synced](ctx, c, path("/v1/claims", id)+"/sync", struct{}{})
	return out, err
}

// Snapshots lists a tenant's snapshots, the current one first.
func (c *Client) Snapshots(ctx context.Context, workload, tenant string) ([]Snapshot, error) {
	return listAll[Snapshot](ctx, c, path("/v1/workloads", workload)+"/snapshots", values("tenant", tenant), 0)
}

// Restore makes an older snapshot the current one again. It is not repeated when
// the connection breaks: the tenant may have claimed and released since, and
// what it left would be taken from it.
func (c *Client) Restore(ctx context.Context, workload, tenant, id string) (Snapshot, error) {
	body, err := json.Marshal(map[string]string{"tenant": tenant})
	if err != nil {
		return Snapshot{}, fmt.Errorf("write the request: %w", err)
	}
	out, _, err := doJSON[Snapshot](ctx, c, call{
		method: http.MethodPost, path: path("/v1/workloads", workload) + path("/snapshots", id) + "/restore", body: body,
		header: http.Header{"Content-Type": {"application/json"}}, noRetry: true,
	})
	return out, err
}

// Release ends a claim. One whose tenant's state cannot be kept is an *Error
// with CodeSyncFailed: it keeps its container, and calling again tries again.
// With discard the state is given up.
func (c *Client) Release(ctx context.Context, id string, discard bool) (Claim, error) {
	out, _, err := post[Claim](ctx, c, path("/v1/claims", id)+"/release", map[string]bool{"discard": discard})
	return out, err
}

// Runs lists the attempts of hooks that match.
func (c *Client) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	q := values("workload", f.Workload, "container", f.Container, "claim", f.Claim, "tenant", f.Tenant,
		"point", string(f.Point), "state", joined(f.States), "after", f.After, "id", f.IDPart, "since", f.Since, "order", order(f.Newest))
	if !f.NoOutput {
		q.Set("output", "true")
	}
	return listAll[Run](ctx, c, "/v1/hook-runs", q, f.Limit)
}

// Run is all attempts of one hook run, in order.
func (c *Client) Run(ctx context.Context, id string) ([]Run, error) {
	out, err := get[page[Run]](ctx, c, path("/v1/hook-runs", id))
	return out.Items, err
}

// Doctor has the server look itself over.
func (c *Client) Doctor(ctx context.Context) (Report, error) {
	return get[Report](ctx, c, "/v1/doctor")
}

// Health is what a probe sees; an error when the server is not ready.
func (c *Client) Health(ctx context.Context) (ServerHealth, error) {
	return get[ServerHealth](ctx, c, "/readyz")
}

// order is the parameter of the order of a list.
func order(newest bool) string {
	if newest {
		return "desc"
	}
	return ""
}

func joined[S ~string](states []S) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = fmt.Sprint(s)
	}
	return strings.Join(words, ",")
}
