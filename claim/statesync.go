package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// StateSync transfers tenants' state between their containers and the sinks of
// their workloads. Each transfer has an event for its start and one for its
// end.
type StateSync struct {
	store Store
	pools *pool.Pools
	sinks Sinks
	rt    containers
	log   *slog.Logger
	// Transferred, if set, is called for each transfer that has ended. It is set
	// before the first one, and must not block.
	Transferred func(workload, direction string, t snapshot.Transfer, err error)

	mu      sync.Mutex // guards the fields below
	uploads map[string]*uploadOp
	closed  error // why no upload starts
}

// containers is the part of the runtime that StateSync uses.
type containers interface {
	runtime.Files
	Stop(ctx context.Context, id string, fence int64) error
}

// Sinks opens the sink that a workload names.
type Sinks interface {
	Open(ctx context.Context, sync *workload.Sync) (*snapshot.Sink, error)
}

// uploadOp is an upload in progress for a claim.
type uploadOp struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// Errors of uploads.
var (
	// ErrSyncNotConfigured is returned when the workload has no sync, or not of
	// the requested kind.
	ErrSyncNotConfigured = errors.New("sync not configured")
	// ErrNotActive is returned when a claim is not active, or not anymore.
	ErrNotActive  = errors.New("the claim is not active")
	errSuperseded = fmt.Errorf("%w: superseded by the upload of its release", ErrNotActive)
)

// syncConfig returns the sync configuration for a container of w: the mappings
// of w, and the sink of the workload's current revision, so that a changed sink
// is also the one of the next claim. It is nil when w has no sync.
func (ss *StateSync) syncConfig(ctx context.Context, w *workload.Workload) (*workload.Sync, error) {
	if w.Sync == nil {
		return nil, nil
	}
	current, _, err := ss.pools.Catalog.Current(ctx, w.ID)
	if errors.Is(err, pool.ErrWorkloadNotFound) {
		return w.Sync, nil
	}
	if err != nil || current.Sync == nil {
		return w.Sync, err
	}
	merged := *current.Sync
	merged.Mappings = w.Sync.Mappings
	return &merged, nil
}

func snapshotOwner(c Claim) snapshot.Owner {
	return snapshot.Owner{Workload: c.Workload, Tenant: c.Tenant}
}

// currentSnapshot returns the tenant's current snapshot, or one without an ID.
func (ss *StateSync) currentSnapshot(ctx context.Context, c Claim, w *workload.Workload) (snapshot.Snapshot, error) {
	sink, err := ss.openSink(ctx, w)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	s, err := sink.Current(ctx, snapshotOwner(c))
	if errors.Is(err, snapshot.ErrNoSnapshot) {
		return snapshot.Snapshot{}, nil
	}
	return s, err
}

// openSink opens the sink for a container of w.
func (ss *StateSync) openSink(ctx context.Context, w *workload.Workload) (*snapshot.Sink, error) {
	cfg, err := ss.syncConfig(ctx, w)
	if err != nil {
		return nil, err
	}
	if cfg == nil {
		return nil, ErrSyncNotConfigured
	}
	return ss.sinks.Open(ctx, cfg)
}

// download copies the tenant's current snapshot into the claim's container, which
// is empty or holds another snapshot of the tenant. The returned claim holds the
// snapshot's ID.
func (ss *StateSync) download(ctx context.Context, c Claim, w *workload.Workload, holds string) (Claim, snapshot.Transfer, error) {
	sink, err := ss.openSink(ctx, w)
	if err != nil {
		return c, snapshot.Transfer{}, err
	}
	if err := ss.recordTransfer(ctx, c, activity.SyncStarted, "download", "for the claim", activity.SyncStartedData{Direction: "download"}, nil, nil); err != nil {
		return c, snapshot.Transfer{}, err
	}
	progress := ss.recordProgress(ctx, c, "download")
	t, err := sink.Download(ctx, ss.rt, snapshot.Destination{
		Owner: snapshotOwner(c), Container: c.Container, Fence: c.ContainerFence, Holds: holds,
		Progress: progress.update,
	})
	progress.stop()
	c, err = ss.finishTransfer(ctx, c, "download", t, err)
	return c, t, err
}

// Upload uploads the state of a claim's container as a snapshot, one upload at
// a time per claim. The upload of the release cancels any other. The returned
// claim holds the snapshot's ID.
//
// The upload of the release ends every process in the container before it
// reads. No process of the tenant can then change files during the upload, or
// block, stop or starve the process that reads them. The next user of the
// container restarts its main process. The error is runtime.ErrNotRunning or
// ErrContainerExited for a container that exits during the upload.
//
// The container's files count as the tenant's whole state only while the claim
// is in state c.State. A snapshot of a container that the claim no longer holds
// is never made current.
func (ss *StateSync) Upload(ctx context.Context, c Claim, w *workload.Workload, reason string) (Claim, snapshot.Transfer, error) {
	sink, err := ss.openSink(ctx, w)
	if err != nil {
		return c, snapshot.Transfer{}, classifySyncError("upload", err)
	}
	ctx, end, err := ss.startUpload(ctx, c)
	if err != nil {
		return c, snapshot.Transfer{}, err
	}
	defer end()
	// The release may have run while this upload waited.
	if err = ss.verifyUnchanged(ctx, c); err == nil && c.State == Releasing {
		err = ss.stop(ctx, c)
	}
	if err == nil {
		err = ss.recordTransfer(ctx, c, activity.SyncStarted, "upload", reason, activity.SyncStartedData{Direction: "upload"}, nil, nil)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return c, snapshot.Transfer{}, err
	}
	progress := ss.recordProgress(ctx, c, "upload")
	t, err := ss.uploadWithRetry(ctx, sink, c, snapshot.Origin{
		Owner: snapshotOwner(c), Revision: w.Revision, Claim: c.ID, Container: c.Container,
		Fence: c.Fence, Reason: reason, Progress: progress.update,
	})
	progress.stop()
	c, err = ss.finishTransfer(ctx, c, "upload", t, err)
	return c, t, classifySyncError("upload", err)
}

// stopTimeout limits how long a stop, which may need a start of process 1,
// occupies a release. It is longer than the backends' own limits.
const stopTimeout = 15 * time.Minute

// errStopTimeout is the cause when stopTimeout has passed. It is not
// runtime.ErrUnavailable: the backend would have returned that.
var errStopTimeout = fmt.Errorf("the container was not stopped within %s", stopTimeout)

// stop ends every process in a claim's container.
func (ss *StateSync) stop(ctx context.Context, c Claim) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, errStopTimeout)
	defer cancel()
	return asReadError(ss.rt.Stop(ctx, c.Container, c.ContainerFence))
}

// pruneTimeout bounds the cleanup after a failed upload, which blocks other
// uploads of the claim: a failing sink may not return an error for a long time.
const pruneTimeout = time.Minute

// maxUploadAttempts is how often an upload is tried on conflicts with another.
const maxUploadAttempts = 3

func (ss *StateSync) uploadWithRetry(ctx context.Context, sink *snapshot.Sink, c Claim, o snapshot.Origin) (t snapshot.Transfer, err error) {
	// What was listed may still have to be stored, which can take long.
	o.Verify = func(ctx context.Context) error { return ss.verifyUnchanged(ctx, c) }
	for range maxUploadAttempts {
		t, err = sink.Upload(ctx, verifiedTrees{ss.rt, func() error { return o.Verify(ctx) }}, o)
		if !errors.Is(err, snapshot.ErrConflict) {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && ctx.Err() == nil { // a canceled upload is not cleaned up here
		ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
		defer cancel()
		if _, pruneErr := sink.Prune(ctx, snapshotOwner(c)); pruneErr != nil {
			ss.log.Info("prune after failed upload failed", "claim", c.ID, "error", pruneErr)
		}
	}
	return t, err
}

// startUpload registers an upload when no other is in progress. The upload of a
// release cancels the other one.
func (ss *StateSync) startUpload(ctx context.Context, c Claim) (context.Context, func(), error) {
	for {
		ss.mu.Lock()
		other := ss.uploads[c.ID]
		if err := ss.closed; err != nil {
			ss.mu.Unlock()
			return ctx, nil, err
		}
		if other == nil {
			ctx, cancel := context.WithCancelCause(ctx)
			op := &uploadOp{cancel, make(chan struct{})}
			ss.uploads[c.ID] = op
			ss.mu.Unlock()
			return ctx, func() {
				ss.mu.Lock()
				delete(ss.uploads, c.ID)
				ss.mu.Unlock()
				cancel(nil)
				close(op.done)
			}, nil
		}
		ss.mu.Unlock()
		if c.State == Releasing {
			other.cancel(errSuperseded)
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return ctx, nil, context.Cause(ctx)
		}
	}
}

// AbortUpload cancels the upload in progress for a claim whose state is
// discarded.
func (ss *StateSync) AbortUpload(id string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if op := ss.uploads[id]; op != nil {
		op.cancel(ErrDiscarded)
	}
}

// close cancels the uploads in progress, and later ones.
func (ss *StateSync) close(cause error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = cause
	for _, op := range ss.uploads {
		op.cancel(cause)
	}
}

// verifyUnchanged returns an error unless the claim still has the state and the
// container of c.
func (ss *StateSync) verifyUnchanged(ctx context.Context, c Claim) error {
	current, err := ss.store.Claim(ctx, c.ID)
	if err == nil && current.Discard && !c.Discard {
		return ErrDiscarded
	}
	if err == nil && (current.State != c.State || current.Container != c.Container) {
		err = fmt.Errorf("%w: it is %s", ErrNotActive, current.State)
	}
	return err
}

// asReadError marks an error of an existing container with an available engine.
func asReadError(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, runtime.ErrUnavailable) || errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	return &readError{err}
}

// finishTransfer records the end of a transfer, and its result in the claim.
func (ss *StateSync) finishTransfer(ctx context.Context, c Claim, direction string, t snapshot.Transfer, err error) (Claim, error) {
	ctx = context.WithoutCancel(ctx)
	data := activity.SyncEndedData{
		Direction: direction, Snapshot: t.Snapshot.ID, Unchanged: t.Unchanged, Files: t.Files, Bytes: t.Bytes,
		MovedFiles: t.MovedFiles, MovedBytes: t.MovedBytes,
		UploadedBytes: t.Sent, DurationMS: float64(t.Duration.Microseconds()) / 1000,
	}
	if ss.Transferred != nil {
		ss.Transferred(c.Workload, direction, t, err)
	}
	if err != nil {
		data.Error = err.Error()
		return c, errors.Join(err, ss.recordTransfer(ctx, c, activity.SyncFailed, direction, err.Error(), data, nil, nil))
	}
	now := time.Now().UTC()
	summary := fmt.Sprintf("%d files, %d bytes, of which %d files, %d bytes moved", t.Files, t.Bytes, t.MovedFiles, t.MovedBytes)
	if t.Unchanged {
		summary = "unchanged"
	}
	c.Snapshot = t.Snapshot.ID
	if direction == "upload" {
		c.SyncedAt = &now
	}
	stored := t.Snapshot.StoredBytes()
	return c, ss.recordTransfer(ctx, c, activity.SyncCompleted, direction, summary, data, &stored, func(into *Claim) {
		into.Snapshot, into.SyncedAt = c.Snapshot, c.SyncedAt
	})
}

// recordTransfer records an event of a transfer, and what the tenant's current
// snapshot occupies unless stored is nil.
func (ss *StateSync) recordTransfer(ctx context.Context, c Claim, eventType activity.Type, direction, detail string, data any, stored *int64, set func(*Claim)) error {
	note := Note(c.ID, set, States()...)
	note.StateBytes = stored
	note.Events = []activity.Event{{
		Type: eventType, Message: direction + " of the tenant's state " + transferStatusText[eventType] + detail, Data: activity.Data(data),
	}}
	if _, err := ss.store.UpdateClaim(ctx, note); err != nil {
		return fmt.Errorf("record the %s of the state of claim %s: %w", direction, c.ID, err)
	}
	return nil
}

// recordProgress begins to record the progress of a transfer. The caller stops it.
func (ss *StateSync) recordProgress(ctx context.Context, c Claim, direction string) *transferProgress {
	return startProgress(func(transferred int64) {
		data := activity.SyncProgressedData{Direction: direction, TransferredBytes: transferred}
		detail := fmt.Sprintf("%d bytes transferred", transferred)
		if err := ss.recordTransfer(ctx, c, activity.SyncProgressed, direction, detail, data, nil, nil); err != nil && ctx.Err() == nil {
			ss.log.Info("progress of a transfer was not recorded", "claim", c.ID, "error", err)
		}
	})
}

var transferStatusText = map[activity.Type]string{
	activity.SyncStarted: "started: ", activity.SyncProgressed: "in progress: ", activity.SyncCompleted: "completed: ", activity.SyncFailed: "failed: ",
}
