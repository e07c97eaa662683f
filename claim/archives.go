package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

// ErrTooManyArchives is returned when as many snapshots as this server can are
// verified, exported or imported, or when one of the tenant's is.
var ErrTooManyArchives = errors.New("too many snapshots are verified, exported or imported at once")

// Bounds of verifications, exports and imports. They need up to 120 MiB each, for as
// long as a client takes.
const (
	maxArchives    = 4
	archiveTimeout = 12 * time.Hour
)

var errArchiveTimeout = fmt.Errorf("it has not finished within %s", archiveTimeout)

// archives are the verifications, exports and imports in progress.
type archives struct {
	mu      sync.Mutex // guards running
	running map[snapshot.Owner]bool
}

// begin begins one of a tenant. The caller calls end, unless there is an error.
func (a *archives) begin(ctx context.Context, o snapshot.Owner) (_ context.Context, end func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.running[o]:
		return ctx, nil, fmt.Errorf("%w: one of tenant %s is", ErrTooManyArchives, o.Tenant)
	case len(a.running) >= maxArchives:
		return ctx, nil, fmt.Errorf("%w: %d are", ErrTooManyArchives, maxArchives)
	case a.running == nil:
		a.running = map[snapshot.Owner]bool{}
	}
	a.running[o] = true
	ctx, cancel := context.WithTimeoutCause(ctx, archiveTimeout, errArchiveTimeout)
	return ctx, func() {
		cancel()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.running, o)
	}, nil
}

// VerifySnapshots reads and checks a tenant's snapshot, or all that are kept for "".
// Damage is no error: the result has it. Errors: those of Snapshots,
// snapshot.ErrNoSnapshot and ErrTooManyArchives.
func (s *Service) VerifySnapshots(ctx context.Context, workloadID, tenant, id string, progress func(snapshot.VerifyProgress)) (snapshot.Verification, error) {
	sink, ctx, end, err := s.beginArchive(ctx, workloadID, tenant)
	if err != nil {
		return snapshot.Verification{}, err
	}
	defer end()
	result, err := sink.Verify(ctx, snapshot.Owner{Workload: workloadID, Tenant: tenant}, id, progress)
	return result, classifyArchiveError("verifying", err)
}

// ExportSnapshot writes a tenant's snapshot, or the current one for "", as a tar. It
// calls open once it has found it, for the writer. Errors: those of VerifySnapshots,
// and that of open.
func (s *Service) ExportSnapshot(ctx context.Context, workloadID, tenant, id string, open func(snapshot.Snapshot) (io.Writer, error)) (snapshot.Snapshot, error) {
	sink, ctx, end, err := s.beginArchive(ctx, workloadID, tenant)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	defer end()
	var refused error // by open: it is not the sink's
	exported, err := sink.Export(ctx, snapshot.Owner{Workload: workloadID, Tenant: tenant}, id, func(found snapshot.Snapshot) (w io.Writer, err error) {
		w, refused = open(found)
		return w, refused
	})
	if refused != nil {
		return exported, refused
	}
	return exported, classifyArchiveError("exporting", err)
}

// ImportSnapshot makes a tar the tenant's current snapshot, which the tenant's next
// claim downloads. The former one stays in the list. The function admit is called
// right before that, with what the tar has become; its error ends the import. Errors:
// that of admit, those of Restore, ErrTooManyArchives, runtime.ErrBadArchive and
// snapshot.ErrTooLarge.
func (s *Service) ImportSnapshot(
	ctx context.Context, workloadID, tenant string, archive io.Reader, admit func(context.Context, snapshot.Snapshot) error,
) (snapshot.Snapshot, error) {
	sink, ctx, end, err := s.beginArchive(ctx, workloadID, tenant)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	defer end()
	unclaimed := func(ctx context.Context) error { return s.ensureNoLiveClaim(ctx, workloadID, tenant) }
	if err := unclaimed(ctx); err != nil {
		return snapshot.Snapshot{}, err
	}
	_, record, err := s.pools.Catalog.Current(ctx, workloadID)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	origin := snapshot.Origin{Owner: snapshot.Owner{Workload: workloadID, Tenant: tenant}, Revision: record.Revision}
	var refused error // by admit: it is not the sink's
	imported, err := sink.Import(ctx, origin, archive, func(ctx context.Context, made snapshot.Snapshot) error {
		if refused = admit(ctx, made); refused != nil {
			return refused
		}
		return unclaimed(ctx)
	})
	if refused != nil {
		return imported, refused
	}
	if err != nil {
		return imported, classifyArchiveError("importing", err)
	}
	if err := unclaimed(ctx); err != nil {
		return snapshot.Snapshot{}, fmt.Errorf("imported as %s, but claimed concurrently: %w, and restore that one", imported.ID, err)
	}
	return imported, nil
}

// beginArchive opens the sink of a workload's current revision for a tenant.
func (s *Service) beginArchive(ctx context.Context, workloadID, tenant string) (*snapshot.Sink, context.Context, func(), error) {
	sink, err := s.openSinkOf(ctx, workloadID, tenant)
	if err != nil {
		return nil, ctx, nil, err
	}
	ctx, end, err := s.archives.begin(ctx, snapshot.Owner{Workload: workloadID, Tenant: tenant})
	return sink, ctx, end, err
}

// classifyArchiveError returns the caller's mistakes unchanged, and any other error
// as one of the sink.
func classifyArchiveError(direction string, err error) error {
	for _, mistake := range []error{snapshot.ErrNoSnapshot, snapshot.ErrTooLarge, runtime.ErrBadArchive, ErrClaimExists} {
		if errors.Is(err, mistake) {
			return err
		}
	}
	return classifySyncError(direction, err)
}
