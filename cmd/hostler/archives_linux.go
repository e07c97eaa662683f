package main

import (
	"context"
	"errors"
	"io"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
)

// ExportSnapshot implements api.State. It records the export before it begins:
// nothing leaves without the event.
func (s sizedState) ExportSnapshot(ctx context.Context, workload, tenant, id string, open func(snapshot.Snapshot) (io.Writer, error)) (snapshot.Snapshot, error) {
	return s.Service.ExportSnapshot(ctx, workload, tenant, id, func(found snapshot.Snapshot) (io.Writer, error) {
		err := s.db.Append(ctx, activity.Event{
			Type: activity.SnapshotExported, Workload: workload, Tenant: tenant, Message: "snapshot " + found.ID + " is exported",
			Data: activity.Data(activity.SnapshotExportedData{Snapshot: found.ID}),
		})
		if err != nil {
			return nil, err
		}
		return open(found)
	})
}

// ImportSnapshot implements api.State.
func (s sizedState) ImportSnapshot(ctx context.Context, workload, tenant string, archive io.Reader) (snapshot.Snapshot, error) {
	imported, err := s.Service.ImportSnapshot(ctx, workload, tenant, archive, func(ctx context.Context, made snapshot.Snapshot) error {
		return s.db.AdmitState(ctx, workload, tenant, made.StoredBytes())
	})
	if err != nil {
		return imported, err
	}
	// It is imported: the next claim corrects what could not be recorded.
	data := activity.SnapshotImportedData{Bytes: imported.StoredBytes(), Files: imported.Files(), Snapshot: imported.ID}
	err = s.db.SetStateSize(context.WithoutCancel(ctx), workload, tenant, data.Bytes, activity.Event{
		Type: activity.SnapshotImported, Workload: workload, Tenant: tenant, Message: "a tar was imported as snapshot " + imported.ID, Data: activity.Data(data),
	})
	if err != nil && !errors.Is(err, store.ErrClosed) {
		s.log.Warn("size of an imported state not recorded", "workload", workload, "tenant", tenant, "error", err)
	}
	return imported, nil
}
