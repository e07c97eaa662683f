package api

import (
	"context"
	"io"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/snapshot"
)

// State stores tenants' state outside of their containers.
type State interface {
	// Sync uploads the state of an active claim as a snapshot.
	Sync(ctx context.Context, claimID string) (claim.Claim, snapshot.Transfer, error)
	// Snapshots lists a tenant's snapshots, the current one first.
	Snapshots(ctx context.Context, workload, tenant string) ([]snapshot.Snapshot, error)
	// Restore makes an older snapshot the current one again.
	Restore(ctx context.Context, workload, tenant, id string) (snapshot.Snapshot, error)
	// VerifySnapshots checks a snapshot, or all kept ones for "".
	VerifySnapshots(ctx context.Context, workload, tenant, id string, progress func(snapshot.VerifyProgress)) (snapshot.Verification, error)
	// ExportSnapshot writes a snapshot, or the current one for "", as a tar. It calls
	// open for the writer once it has found it.
	ExportSnapshot(ctx context.Context, workload, tenant, id string, open func(snapshot.Snapshot) (io.Writer, error)) (snapshot.Snapshot, error)
	// ImportSnapshot makes a tar the current snapshot.
	ImportSnapshot(ctx context.Context, workload, tenant string, archive io.Reader) (snapshot.Snapshot, error)
}

// Synced is the result of uploading the state of a claim.
type Synced struct {
	Claim    claim.Claim `json:"claim"`
	Transfer Transfer    `json:"transfer"`
}

// Transfer is the result of an upload.
type Transfer struct {
	Snapshot   string  `json:"snapshot" doc:"The snapshot that is current now."`
	Unchanged  bool    `json:"unchanged" doc:"The current snapshot was already the same, and nothing was stored."`
	Files      int     `json:"files" doc:"The number of files, directories and links of the state."`
	Bytes      int64   `json:"bytes" doc:"Their total size."`
	MovedFiles int     `json:"moved_files" doc:"How many files were read from the container. The others had not changed."`
	MovedBytes int64   `json:"moved_bytes" doc:"Their total size."`
	Sent       int64   `json:"uploaded_bytes" doc:"Bytes sent to the sink."`
	Duration   float64 `json:"duration_ms"`
}

func (a *API) sync(ctx context.Context, in *claimPath) (*struct{ Body Synced }, error) {
	c, t, err := a.o.State.Sync(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &struct{ Body Synced }{Synced{Claim: a.viewClaim(ctx, c), Transfer: Transfer{
		Snapshot: t.Snapshot.ID, Unchanged: t.Unchanged, Files: t.Files, Bytes: t.Bytes,
		MovedFiles: t.MovedFiles, MovedBytes: t.MovedBytes, Sent: t.Sent,
		Duration: float64(t.Duration.Microseconds()) / 1000,
	}}}, nil
}

// Snapshot is a tenant's state at one time, without its location in the sink.
type Snapshot struct {
	ID           string    `json:"id"`
	Current      bool      `json:"current" doc:"The tenant's next claim begins with it."`
	Time         time.Time `json:"time"`
	Reason       string    `json:"reason,omitempty" doc:"Why it was taken: release, interval, request, restored or import."`
	RestoredFrom string    `json:"restored_from,omitempty" doc:"The older snapshot that it restores."`
	Revision     string    `json:"revision,omitempty" doc:"The workload's revision of its container."`
	Claim        string    `json:"claim,omitempty" doc:"The claim whose container it was taken from."`
	Files        int       `json:"files" doc:"The number of files, directories and links."`
	Bytes        int64     `json:"bytes" doc:"Their total size."`
	Stored       int64     `json:"stored_bytes" doc:"What it needs in the sink, with what it shares with other snapshots."`
	New          int64     `json:"new_bytes" doc:"What its upload has stored, its index included. The rest was there. 0 for a restored one."`
}

func viewSnapshot(s snapshot.Snapshot, current bool) Snapshot {
	return Snapshot{
		ID: s.ID, Current: current, Time: s.Time, Reason: s.Reason, RestoredFrom: s.RestoredFrom, Revision: s.Revision, Claim: s.Claim,
		Files: s.Files(), Bytes: s.Bytes(), Stored: s.StoredBytes(), New: s.NewBytes(),
	}
}

type snapshotsIn struct {
	ID     string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Tenant string `query:"tenant" required:"true" minLength:"1" maxLength:"200" doc:"The tenant's name." example:"alice"`
}

// listSnapshots returns all of them at once: a workload's keep bounds their
// number.
func (a *API) listSnapshots(ctx context.Context, in *snapshotsIn) (*struct{ Body *Page[Snapshot] }, error) {
	if err := permit(ctx, in.Tenant, in.ID, ""); err != nil {
		return nil, err
	}
	all, err := a.o.State.Snapshots(ctx, in.ID, in.Tenant)
	if err != nil {
		return nil, err
	}
	page := &Page[Snapshot]{Items: make([]Snapshot, 0, len(all))}
	for i, s := range all {
		page.Items = append(page.Items, viewSnapshot(s, i == 0))
	}
	return &struct{ Body *Page[Snapshot] }{page}, nil
}

// RestoreRequest has the tenant whose snapshot is restored.
type RestoreRequest struct {
	Tenant string `json:"tenant" minLength:"1" maxLength:"200" doc:"The tenant's name." example:"alice"`
}

type restoreIn struct {
	ID       string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Snapshot string `path:"snapshot" maxLength:"128" doc:"The snapshot's id."`
	Body     RestoreRequest
}

func (a *API) restore(ctx context.Context, in *restoreIn) (*struct{ Body Snapshot }, error) {
	if err := permit(ctx, in.Body.Tenant, in.ID, ""); err != nil {
		return nil, err
	}
	s, err := a.o.State.Restore(ctx, in.ID, in.Body.Tenant, in.Snapshot)
	if err != nil {
		return nil, err
	}
	return &struct{ Body Snapshot }{viewSnapshot(s, true)}, nil
}
