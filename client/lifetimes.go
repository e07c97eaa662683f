package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// ClaimOptions are what a claim may have. The zero value has nothing.
type ClaimOptions struct {
	Wait        time.Duration     // for a container; 0: the server's default; NoWait: not at all
	Labels      map[string]string // for filters
	Parameters  map[string]string // of the workload, for its hooks
	Environment map[string]string // of the main process
	ExpiresIn   time.Duration     // how long it lasts since it is active; 0: until it is released
	// RequestID names the request: one that is repeated with the id of the one that
	// created the claim has created true. Empty: a random one, for the attempts of one
	// call. A program that may crash and repeat its job gives a stable one, such as the
	// job's id, so that it knows that it releases its own claim.
	RequestID string
}

// ClaimWith is Claim with options. Labels, environment and lifetime of an existing
// claim are its own; a parameter with another value is an *Error with CodeConflict.
func (c *Client) ClaimWith(ctx context.Context, workload, tenant string, o ClaimOptions) (out Claim, created bool, err error) {
	r := newClaimRequest(workload, tenant, o.Wait)
	r.Labels, r.Parameters, r.Environment = o.Labels, o.Parameters, o.Environment
	r.RequestID = cmp.Or(o.RequestID, r.RequestID)
	if o.ExpiresIn != 0 {
		r.ExpiresIn = o.ExpiresIn.String()
	}
	out, status, err := post[Claim](ctx, c, "/v1/claims", r)
	return out, status == http.StatusCreated, err
}

// Extend moves the end of a claim's lifetime. It is not repeated when the connection
// breaks: each request moves it again.
func (c *Client) Extend(ctx context.Context, id string, by time.Duration) (Claim, error) {
	body, err := json.Marshal(map[string]string{"by": by.String()})
	if err != nil {
		return Claim{}, fmt.Errorf("write the request: %w", err)
	}
	out, _, err := doJSON[Claim](ctx, c, call{
		method: http.MethodPost, path: path("/v1/claims", id) + "/extend", body: body,
		header: http.Header{"Content-Type": {"application/json"}}, noRetry: true,
	})
	return out, err
}

// addLabels adds a filter of labels to a query.
func addLabels(q url.Values, labels map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		q.Add("label", name+"="+labels[name])
	}
}
