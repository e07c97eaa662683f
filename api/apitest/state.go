package apitest

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/snapshot"
)

type state struct{ *Backend }

// Sync uploads nothing: the current snapshot stays unchanged.
func (b state) Sync(ctx context.Context, id string) (claim.Claim, snapshot.Transfer, error) {
	if err := b.injectedError("sync"); err != nil {
		return claim.Claim{}, snapshot.Transfer{}, err
	}
	c, err := records(b).Claim(ctx, id)
	if err != nil {
		return c, snapshot.Transfer{}, err
	}
	if c.State != claim.Active {
		return c, snapshot.Transfer{}, claim.ErrNotActive
	}
	at := Time
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.Backend.Snapshots) == 0 {
		return c, snapshot.Transfer{}, claim.ErrSyncNotConfigured
	}
	now := b.Backend.Snapshots[0]
	c.Snapshot, c.SyncedAt = now.ID, &at
	return c, snapshot.Transfer{Snapshot: now, Files: now.Files(), Bytes: now.Bytes(), MovedFiles: 1, MovedBytes: 20, Sent: 10, Duration: 12 * time.Millisecond}, nil
}

func (b state) Snapshots(_ context.Context, workload, _ string) ([]snapshot.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.Records[workload]; !ok {
		return nil, pool.ErrWorkloadNotFound
	}
	return slices.Clone(b.Backend.Snapshots), b.Errors["snapshots"]
}

func (b state) Restore(ctx context.Context, workload, tenant, id string) (snapshot.Snapshot, error) {
	all, err := b.Snapshots(ctx, workload, tenant)
	if err == nil {
		err = b.injectedError("restore")
	}
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	i := slices.IndexFunc(all, func(s snapshot.Snapshot) bool { return s.ID == id })
	if i < 0 {
		return snapshot.Snapshot{}, snapshot.ErrNoSnapshot
	}
	back := all[i]
	back.ID, back.RestoredFrom, back.Reason = "restored-"+id, id, "restored"
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Backend.Snapshots = slices.Insert(all, 0, back)
	return back, nil
}

func (b state) Examine(context.Context) doctor.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Report
}
