package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
)

// Claimer claims containers.
type Claimer interface {
	Claim(ctx context.Context, r claim.Request) (c claim.Claim, created bool, err error)
	// Touch records that a claim is still in use. It returns an ended claim
	// unchanged.
	Touch(ctx context.Context, id string) (claim.Claim, error)
	// Extend moves the end of an active claim's lifetime.
	Extend(ctx context.Context, id string, by time.Duration) (claim.Claim, error)
	// IdleTTL returns the time after which idle claims of a workload are
	// released; 0 for never.
	IdleTTL(ctx context.Context, workload string) time.Duration
}

// Releaser releases claims.
type Releaser interface {
	Release(ctx context.Context, claimID string, r release.Request) (claim.Claim, error)
}

// ClaimReader reads the records of claims.
type ClaimReader interface {
	Claim(ctx context.Context, id string) (claim.Claim, error)
	Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error)
}

// maxWait bounds how long a caller may wait for a container.
const maxWait = 5 * time.Minute

type claimPath struct {
	ID string `path:"id" maxLength:"128" doc:"The claim's id."`
}

type claimOut struct {
	Status int
	Body   claim.Claim
}

// viewClaim returns a claim with empty lists instead of nil, and with the time
// at which it becomes idle.
func (a *API) viewClaim(ctx context.Context, c claim.Claim) claim.Claim {
	if c.Endpoint.Ports == nil {
		c.Endpoint.Ports = []int{}
	}
	if c.Hooks == nil {
		c.Hooks = []claim.HookSummary{}
	}
	if c.Timings == nil {
		c.Timings = map[string]float64{}
	}
	if c.Warnings == nil {
		c.Warnings = []string{}
	}
	if ttl := a.o.Claimer.IdleTTL(ctx, c.Workload); ttl > 0 && c.State == claim.Active {
		at := c.LastActive().Add(ttl)
		c.IdleExpiresAt = &at
	}
	return viewOf(ctx).claim(c)
}

// ClaimRequest is the request for a claim.
type ClaimRequest struct {
	Workload string    `json:"workload" minLength:"1" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Tenant   string    `json:"tenant,omitempty" maxLength:"200" doc:"The tenant's name, by default that of the credential; a repeated request for the same tenant returns the same claim." example:"alice"`
	Wait     *Duration `json:"wait,omitempty" doc:"How long to wait for a container, at most 5m. 0: not at all, so that only an idle container is claimed. Default: not at all when every container is in use, and up to 2m for one that is being created."`

	RequestID   string            `json:"request_id,omitempty" maxLength:"128" doc:"A repeated request with the id of the one that created the claim is answered with 201 too: its answer was lost. Chosen at random for each claim."`
	Labels      map[string]string `json:"labels,omitempty" doc:"For filters of claims and events, at most 16. They do not change."`
	Parameters  map[string]string `json:"parameters,omitempty" doc:"Those that the workload declares, for its hooks."`
	Environment map[string]string `json:"environment,omitempty" doc:"Of the main process, over the workload's: at most 64 variables and 32 KiB. Hooks do not get it."`
	ExpiresIn   Duration          `json:"expires_in,omitempty" doc:"How long the claim lasts since it is active, whatever its use: 1s to 720h. Default: until it is released."`
}

// Traced are the headers of a request that runs hooks.
type Traced struct {
	Traceparent string `header:"traceparent" doc:"W3C Trace Context, version 00. Commands of hooks have it as TRACEPARENT. Another value is ignored."`
}

type claimIn struct {
	Traced
	Body ClaimRequest
}

func (a *API) claim(ctx context.Context, in *claimIn) (*claimOut, error) {
	var wait time.Duration
	if in.Body.Wait != nil {
		wait = in.Body.Wait.Duration
	}
	if wait < 0 || wait > maxWait {
		return nil, invalidf("body.wait: %s is not between 0 and %s", wait, maxWait)
	}
	tenant, err := permitNew(ctx, in.Body.Tenant, in.Body.Workload)
	if err != nil {
		return nil, err
	}
	c, created, err := a.o.Claimer.Claim(ctx, claim.Request{
		Workload: in.Body.Workload, Tenant: tenant, Wait: wait, NoWait: in.Body.Wait != nil && wait == 0, Traceparent: validTraceparent(in.Traceparent),
		Actor: activity.ActorOf(ctx).Name, ID: in.Body.RequestID,
		Labels: in.Body.Labels, Parameters: in.Body.Parameters, Environment: in.Body.Environment, ExpiresIn: in.Body.ExpiresIn.Duration,
	})
	if scopeOf(ctx) != nil && errors.Is(err, pool.ErrWorkloadNotFound) {
		return nil, noWorkload(ctx, in.Body.Workload)
	}
	if none, ok := errors.AsType[*claim.UnavailableError](err); ok && scopeOf(ctx) != nil {
		return nil, none.Plain()
	}
	if err == nil {
		err = credentialEnd(ctx) // the claim that was begun is the tenant's, not the credential's
	}
	if err != nil {
		return nil, ofBody(err)
	}
	out := &claimOut{Status: http.StatusOK, Body: a.viewClaim(ctx, c)}
	if created || in.Body.RequestID != "" && c.Request == in.Body.RequestID {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type listClaimsIn struct {
	Paging
	Selection
	Workload  string   `query:"workload" maxLength:"128"`
	Tenant    string   `query:"tenant" maxLength:"200"`
	Container string   `query:"container" maxLength:"128"`
	Label     []string `query:"label,explode" doc:"NAME=VALUE: only claims with this label; repeated, with all of them."`
	State     []string `query:"state,explode" doc:"pending, active, releasing, release_failed, released or failed; several as a list with commas or repeated."`
}

func (a *API) listClaims(ctx context.Context, in *listClaimsIn) (*struct{ Body *Page[claim.Claim] }, error) {
	wanted, err := states(in.State, claim.States())
	if err != nil {
		return nil, err
	}
	labels, err := labelsOf(in.Label)
	if err != nil {
		return nil, err
	}
	items, err := a.o.Claims.Claims(ctx, claim.Filter{
		Workload: in.Workload, Tenant: in.Tenant, Container: in.Container,
		States: wanted, After: in.After, IDPart: in.IDPart, Newest: in.isNewest(), Limit: in.Limit + 1, Scope: scopeOf(ctx), Labels: labels,
	})
	if err != nil {
		return nil, err
	}
	page := pageOf(items, in.Limit, func(c claim.Claim) string { return c.ID })
	for i, c := range page.Items {
		page.Items[i] = a.viewClaim(ctx, c)
	}
	return &struct{ Body *Page[claim.Claim] }{page}, nil
}

func (a *API) getClaim(ctx context.Context, in *claimPath) (*struct{ Body claim.Claim }, error) {
	c, err := a.o.Claims.Claim(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &struct{ Body claim.Claim }{a.viewClaim(ctx, c)}, nil
}

func (a *API) touch(ctx context.Context, in *claimPath) (*struct{ Body claim.Claim }, error) {
	c, err := a.o.Claimer.Touch(ctx, in.ID)
	if err == nil && c.State != claim.Active {
		err = fmt.Errorf("claim %s: %w: it is %s", c.ID, claim.ErrNotActive, c.State)
	}
	if err != nil {
		return nil, err
	}
	return &struct{ Body claim.Claim }{a.viewClaim(ctx, c)}, nil
}

// ReleaseRequest has the options of a release.
type ReleaseRequest struct {
	Discard bool `json:"discard,omitempty" doc:"Destroy the container with the tenant's state, without uploading it."`
}

type releaseIn struct {
	Traced
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Body *ReleaseRequest
}

func (a *API) release(ctx context.Context, in *releaseIn) (*struct{ Body claim.Claim }, error) {
	r := release.Request{Reason: "released by its tenant", Traceparent: validTraceparent(in.Traceparent)}
	if in.Body != nil {
		r.Discard = in.Body.Discard
	}
	c, err := a.o.Releaser.Release(ctx, in.ID, r)
	if err != nil {
		return nil, err
	}
	return &struct{ Body claim.Claim }{a.viewClaim(ctx, c)}, nil
}
