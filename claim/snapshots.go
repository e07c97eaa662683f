package claim

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// ErrClaimExists says that a tenant holds a claim, which would keep its own state
// over what was restored.
var ErrClaimExists = errors.New("the tenant holds a claim")

// Sync takes the state of an active claim into a snapshot at once, where the
// workload allows that (policy.manual). When another upload is under way it
// waits for its turn. Errors: ErrClaimNotFound, ErrNotActive, ErrSyncNotConfigured, *SyncError
// and those of the engine.
func (s *Service) Sync(ctx context.Context, id string) (Claim, snapshot.Transfer, error) {
	c, w, err := s.activeClaim(ctx, id)
	if err == nil && (w.Sync == nil || !w.Sync.Policy.Manual) {
		err = fmt.Errorf("%w: sync.policy.manual of %s is not set", ErrSyncNotConfigured, c.Workload)
	}
	if err != nil {
		return Claim{}, snapshot.Transfer{}, fmt.Errorf("claim %s: %w", id, err)
	}
	return s.StateSync.Upload(ctx, c, w, "request")
}

// activeClaim is an active claim with its container's workload.
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

// Snapshots lists a tenant's snapshots that are kept, the current one first.
// Errors: ErrInvalidTenant, pool.ErrWorkloadNotFound, ErrSyncNotConfigured, *SyncError.
func (s *Service) Snapshots(ctx context.Context, workloadID, tenant string) ([]snapshot.Snapshot, error) {
	sink, err := s.openSinkOf(ctx, workloadID, tenant)
	if err != nil {
		return nil, err
	}
	list, err := sink.List(ctx, snapshot.Owner{Workload: workloadID, Tenant: tenant})
	return list, classifySyncError("listing", err)
}

// Restore makes an older snapshot the tenant's current one, which its next
// claim begins with. What was current stays in the list. Errors are those of
// Snapshots, ErrClaimExists, and snapshot.ErrNoSnapshot. It is ErrClaimExists too when the
// tenant has claimed meanwhile: that claim may have begun with what was current
// before, and would keep it over what was restored.
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
		return snapshot.Snapshot{}, fmt.Errorf("restored as %s, but claimed meanwhile: %w, and restore that one", restored.ID, err)
	}
	return restored, nil
}

// ensureNoLiveClaim is ErrClaimExists when the tenant has a live claim.
func (s *Service) ensureNoLiveClaim(ctx context.Context, workloadID, tenant string) error {
	live, err := s.store.Claims(ctx, Filter{Workload: workloadID, Tenant: tenant, Limit: 1})
	if err != nil {
		return fmt.Errorf("look for a claim of tenant %s: %w", tenant, err)
	}
	if len(live) > 0 {
		return fmt.Errorf("%w: release %s first", ErrClaimExists, live[0].ID)
	}
	return nil
}

// openSinkOf opens the sink of a workload as it is applied now.
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
