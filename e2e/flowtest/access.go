package flowtest

import (
	"context"
	"log/slog"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/store"
)

// Access returns how tenants use the containers. change may be nil.
func (h *Harness) Access(change func(*access.Options)) *access.Service {
	o := access.Options{
		Claims: records{h.DB, h.Claims}, Workloads: h.Pools.Catalog, Runtime: h.runtime,
		Log: slog.New(panicHandler{slog.DiscardHandler, h.T}),
	}
	if change != nil {
		change(&o)
	}
	return access.New(o)
}

// records has the claims for package access.
type records struct {
	*store.DB
	service *claim.Service
}

// Touch implements access.Claims.
func (r records) Touch(ctx context.Context, id string) (claim.Claim, error) {
	return r.service.Touch(ctx, id)
}
