package claim

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// ErrClaimExists is returned when a tenant has a live claim, whose release
// would replace the restored state.
var ErrClaimExists = errors.New("the tenant has a live claim")

// Sync uploads the state of an active claim now, where the workload allows it
// (policy.manual). It waits for another upload in progress. Errors:
// ErrClaimNotFound, ErrNotActive, ErrSyncNotConfigured, *SyncError and those of
// the engine.
func (s *Service) Sync(ctx context.Context, id string) (Claim, snapshot.Transfer, error) {
	c, w, err := s.activeClaim(ctx, id)
	if errors.Is(err, ErrClaimNotFound) {
		return Claim{}, snapshot.Transfer{}, err // it has the id
	}
	if err == nil && (w.Sync == nil || !w.Sync.Policy.Manual) {
		err = fmt.Errorf("%w: sync.policy.manual of %s is not set", ErrSyncNotConfigured, c.Workload)
	}
	if err != nil {
		return Claim{}, snapshot.Transfer{}, fmt.Errorf("claim %s: %w", id, err)
	}
	return s.StateSync.Upload(ctx, c, w, "request")
}

// activeClaim returns an active claim and its container's workload.
func (s *Service) activeClaim(ctx context.Context, id string) (Claim, *workload.Workload, error) {
	c, err := s.store.Claim(ctx, id)
	if err != nil {
		return c, nil, err
	}
	if c.State != Active {
		return c, nil, fmt.Errorf("%w: it is %s", ErrNotActive, c.State)
	}
	w, _, err := s.pools.Catalog.Revision(ctx, c.Workload, c.Revision)
	return c, w, err
}

// Snapshots returns a tenant's retained snapshots, the current one first.
// Errors: ErrInvalidTenant, pool.ErrWorkloadNotFound, ErrSyncNotConfigured,
// *SyncError.
func (s *Service) Snapshots(ctx context.Context, workloadID, tenant string) ([]snapshot.Snapshot, error) {
	sink, err := s.openSinkOf(ctx, workloadID, tenant)
	if err != nil {
		return nil, err
	}
	list, err := sink.List(ctx, snapshot.Owner{Workload: workloadID, Tenant: tenant})
	return list, classifySyncError("listing", err)
}

// Restore makes an older snapshot the tenant's current one, which the tenant's
// next claim downloads. The former current snapshot stays in the list. Errors:
// those of Snapshots, ErrClaimExists, and snapshot.ErrNoSnapshot. It is also
// ErrClaimExists when the tenant has claimed concurrently: that claim may have
// downloaded the former snapshot, and its upload would replace the restored
// one.
func (s *Service) Restore(ctx context.Context, workloadID, tenant, id string) (snapshot.Snapshot, error) {
	sink, err := s.openSinkOf(ctx, workloadID, tenant)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	if err := s.ensureNoLiveClaim(ctx, workloadID, tenant); err != nil {
		return snapshot.Snapshot{}, err
	}
	restored, err := sink.Restore(ctx, snapshot.Owner{Workload: workloadID, Tenant: tenant}, id)
	if errors.Is(err, snapshot.ErrNoSnapshot) {
		return restored, err
	}
	if err != nil {
		return restored, classifySyncError("restoring", err)
	}
	if err := s.ensureNoLiveClaim(ctx, workloadID, tenant); err != nil {
		return snapshot.Snapshot{}, fmt.Errorf("restored as %s, but claimed concurrently: %w, and restore that one", restored.ID, err)
	}
	return restored, nil
}

// ensureNoLiveClaim returns ErrClaimExists when the tenant has a live claim.
func (s *Service) ensureNoLiveClaim(ctx context.Context, workloadID, tenant string) error {
	live, err := s.store.Claims(ctx, Filter{Workload: workloadID, Tenant: tenant, Limit: 1})
	if err != nil {
		return fmt.Errorf("list claims of tenant %s: %w", tenant, err)
	}
	if len(live) > 0 {
		return fmt.Errorf("%w: release %s first", ErrClaimExists, live[0].ID)
	}
	return nil
}

// openSinkOf opens the sink of a workload's current revision.
func (s *Service) openSinkOf(ctx context.Context, workloadID, tenant string) (*snapshot.Sink, error) {
	if err := checkTenant(tenant); err != nil {
		return nil, err
	}
	w, _, err := s.pools.Catalog.Current(ctx, workloadID)
	if err != nil {
		return nil, err
	}
	sink, err := s.StateSync.openSink(ctx, w)
	if errors.Is(err, ErrSyncNotConfigured) {
		return nil, fmt.Errorf("%w: %s has no sync", err, workloadID)
	}
	return sink, classifySyncError("opening", err)
}
