package apitest

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/hostler/hostler/snapshot"
)

// chosen returns the snapshot of an id, or the current one for "".
func (b state) chosen(ctx context.Context, workload, tenant, id string) (snapshot.Snapshot, error) {
	all, err := b.Snapshots(ctx, workload, tenant)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	i := slices.IndexFunc(all, func(s snapshot.Snapshot) bool { return s.ID == id || id == "" })
	if i < 0 {
		return snapshot.Snapshot{}, snapshot.ErrNoSnapshot
	}
	return all[i], nil
}

// VerifySnapshots reports progress twice. The error "verifying" comes after it, and
// "verify" before it.
func (b state) VerifySnapshots(ctx context.Context, workload, tenant, id string, progress func(snapshot.VerifyProgress)) (snapshot.Verification, error) {
	s, err := b.chosen(ctx, workload, tenant, id)
	if err == nil {
		err = b.injectedError("verify")
	}
	if err != nil {
		return snapshot.Verification{}, err
	}
	for n := range int64(2) {
		progress(snapshot.VerifyProgress{Snapshot: s.ID, Files: 1, Bytes: n * s.Bytes(), Of: s.Bytes(), Read: n * s.StoredBytes()})
	}
	if err := b.injectedError("verifying"); err != nil {
		return snapshot.Verification{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Verified, nil
}

// ExportSnapshot writes Archive. The error "exporting" comes after it, and "export"
// before it.
func (b state) ExportSnapshot(ctx context.Context, workload, tenant, id string, open func(snapshot.Snapshot) (io.Writer, error)) (snapshot.Snapshot, error) {
	s, err := b.chosen(ctx, workload, tenant, id)
	if err == nil {
		err = b.injectedError("export")
	}
	if err != nil {
		return s, err
	}
	w, err := open(s)
	if err != nil {
		return s, err
	}
	b.mu.Lock()
	archive := bytes.Clone(b.Archive)
	b.mu.Unlock()
	if _, err := w.Write(archive); err != nil {
		return s, err
	}
	return s, b.injectedError("exporting")
}

// ImportSnapshot keeps the tar as Archive.
func (b state) ImportSnapshot(ctx context.Context, workload, tenant string, archive io.Reader) (snapshot.Snapshot, error) {
	all, err := b.Snapshots(ctx, workload, tenant)
	if err == nil {
		err = b.injectedError("import")
	}
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	data, err := io.ReadAll(archive)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	imported := snapshot.Snapshot{ID: "imported", Time: Time, Reason: "import", Parts: []snapshot.Part{{Files: 2, Bytes: 20, Stored: 10, New: 10}}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Archive = data
	b.Backend.Snapshots = slices.Insert(all, 0, imported)
	return imported, nil
}
