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

// Keeper moves tenants' state between their containers and the sinks of their
// workloads. Each transfer has an event when it starts and one when it ends.
type Keeper struct {
	store Store
	pools *pool.Pools
	sinks Sinks
	rt    containers
	log   *slog.Logger

	mu   sync.Mutex // guards busy
	busy map[string]*keeping
}

// containers is what the Keeper needs of the runtime.
type containers interface {
	runtime.Files
	Stop(ctx context.Context, id string, fence int64) error
}

// Sinks opens the sink that a workload names.
type Sinks interface {
	For(ctx context.Context, sync *workload.Sync) (*snapshot.Sink, error)
}

// keeping is an upload under way for a claim.
type keeping struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// Errors of uploads.
var (
	// ErrNoSync says that the workload does not keep its tenants' state, or not
	// in that way.
	ErrNoSync = errors.New("the workload does not ask for this")
	// ErrNotActive says that a claim is not active, or not any more.
	ErrNotActive = errors.New("the claim is not active")
	errOvertaken = fmt.Errorf("%w: its state is taken for the release instead", ErrNotActive)
)

// sync is what is kept of a container of w, and where: its own mappings, and
// the sink that its workload names now, so that a sink which is changed is the
// next claim's too. nil when nothing is kept.
func (k *Keeper) sync(ctx context.Context, w *workload.Workload) (*workload.Sync, error) {
	if w.Sync == nil {
		return nil, nil
	}
	current, _, err := k.pools.Catalog.Current(ctx, w.ID)
	if errors.Is(err, pool.ErrNoWorkload) {
		return w.Sync, nil
	}
	if err != nil || current.Sync == nil {
		return w.Sync, err
	}
	both := *current.Sync
	both.Mappings = w.Sync.Mappings
	return &both, nil
}

func owner(c Claim) snapshot.Owner { return snapshot.Owner{Workload: c.Workload, Tenant: c.Tenant} }

// current is the tenant's current snapshot, without an ID when there is none.
func (k *Keeper) current(ctx context.Context, c Claim, w *workload.Workload) (snapshot.Snapshot, error) {
	sink, err := k.sink(ctx, w)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	s, err := sink.Current(ctx, owner(c))
	if errors.Is(err, snapshot.ErrNoSnapshot) {
		return snapshot.Snapshot{}, nil
	}
	return s, err
}

// sink opens the sink for a container of w.
func (k *Keeper) sink(ctx context.Context, w *workload.Workload) (*snapshot.Sink, error) {
	sync, err := k.sync(ctx, w)
	if err != nil {
		return nil, err
	}
	if sync == nil {
		return nil, ErrNoSync
	}
	return k.sinks.For(ctx, sync)
}

// download puts the tenant's current snapshot into the claim's container. The
// claim returned knows which one.
func (k *Keeper) download(ctx context.Context, c Claim, w *workload.Workload) (Claim, snapshot.Transfer, error) {
	sink, err := k.sink(ctx, w)
	if err != nil {
		return c, snapshot.Transfer{}, err
	}
	if err := k.tell(ctx, c, activity.SyncStarted, "download", "for the claim", nil, nil); err != nil {
		return c, snapshot.Transfer{}, err
	}
	t, err := sink.Download(ctx, k.rt, snapshot.Destination{Owner: owner(c), Container: c.Container})
	c, err = k.told(ctx, c, "download", t, err)
	return c, t, err
}

// Upload takes the state of a claim's container into a snapshot: one at a time
// for a claim. That of the release overtakes any other. The claim returned
// knows the snapshot.
//
// That of the release ends every process in the container before it reads: no
// process of the tenant changes files while they are read, or holds up, stops or
// starves what reads them. The next user of the container restarts its main
// process. It is runtime.ErrNotRunning or ErrLost of a container that has
// ended.
//
// What a container holds is trusted to be the tenant's whole state only while
// the claim is in the state that c says: a snapshot of a container that was
// given up meanwhile is never made current.
func (k *Keeper) Upload(ctx context.Context, c Claim, w *workload.Workload, reason string) (Claim, snapshot.Transfer, error) {
	sink, err := k.sink(ctx, w)
	if err != nil {
		return c, snapshot.Transfer{}, blame("upload", err)
	}
	ctx, end, err := k.begin(ctx, c)
	if err != nil {
		return c, snapshot.Transfer{}, err
	}
	defer end()
	// It may have waited for its turn behind the release.
	if err = k.still(ctx, c); err == nil && c.State == Releasing {
		err = unreadable(k.rt.Stop(ctx, c.Container, c.ContainerFence))
	}
	if err == nil {
		err = k.tell(ctx, c, activity.SyncStarted, "upload", reason, nil, nil)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return c, snapshot.Transfer{}, err
	}
	t, err := k.upload(ctx, sink, c, w, reason)
	c, err = k.told(ctx, c, "upload", t, err)
	return c, t, blame("upload", err)
}

// pruneTime bounds the tidying up after an upload that failed, during which the
// claim has its turn: a sink in trouble may take for ever to say so.
const pruneTime = time.Minute

// conflicts is how often an upload is done over that met another one.
const conflicts = 3

func (k *Keeper) upload(ctx context.Context, sink *snapshot.Sink, c Claim, w *workload.Workload, reason string) (t snapshot.Transfer, err error) {
	for range conflicts {
		t, err = sink.Upload(ctx, guarded{k.rt, func() error { return k.still(ctx, c) }}, snapshot.Origin{
			Owner: owner(c), Revision: w.Revision, Claim: c.ID, Container: c.Container,
			Fence: c.Fence, Reason: reason,
		})
		if !errors.Is(err, snapshot.ErrConflict) {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && ctx.Err() == nil { // nobody waits for what was cut off
		ctx, cancel := context.WithTimeout(ctx, pruneTime)
		defer cancel()
		if _, pruneErr := sink.Prune(ctx, owner(c)); pruneErr != nil {
			k.log.Info("what a failed upload left was not removed yet", "claim", c.ID, "error", pruneErr)
		}
	}
	return t, err
}

// begin enters an upload. One of a release waits for the others to end.
func (k *Keeper) begin(ctx context.Context, c Claim) (context.Context, func(), error) {
	for {
		k.mu.Lock()
		other := k.busy[c.ID]
		if other == nil {
			ctx, cancel := context.WithCancelCause(ctx)
			mine := &keeping{cancel, make(chan struct{})}
			k.busy[c.ID] = mine
			k.mu.Unlock()
			return ctx, func() {
				k.mu.Lock()
				delete(k.busy, c.ID)
				k.mu.Unlock()
				cancel(nil)
				close(mine.done)
			}, nil
		}
		k.mu.Unlock()
		if c.State == Releasing {
			other.cancel(errOvertaken)
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return ctx, nil, context.Cause(ctx)
		}
	}
}

// Discard cuts off the upload under way for a claim of which nothing is to be
// kept.
func (k *Keeper) Discard(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if u := k.busy[id]; u != nil {
		u.cancel(ErrDiscarded)
	}
}

// close cuts off the uploads under way.
func (k *Keeper) close(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, u := range k.busy {
		u.cancel(cause)
	}
}

// still is an error unless the claim is in the state that c says, with the
// same container.
func (k *Keeper) still(ctx context.Context, c Claim) error {
	now, err := k.store.Claim(ctx, c.ID)
	if err == nil && now.Discard && !c.Discard {
		return ErrDiscarded
	}
	if err == nil && (now.State != c.State || now.Container != c.Container) {
		err = fmt.Errorf("%w: it is %s", ErrNotActive, now.State)
	}
	return err
}

// guarded asks, when an archive was read to its end, whether it counts: the
// container may have been given to somebody else, and wiped, meanwhile.
type guarded struct {
	runtime.Files
	counts func() error
}

func (g guarded) GetFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	r, err := g.Files.GetFiles(ctx, id, dir)
	if err != nil {
		if doubt := g.counts(); doubt != nil {
			return nil, errors.Join(doubt, err)
		}
		return nil, unreadable(err)
	}
	return &guardedReader{r, g.counts}, nil
}

type guardedReader struct {
	io.ReadCloser
	counts func() error
}

func (r *guardedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		if doubt := r.counts(); doubt != nil {
			return n, doubt
		}
	}
	return n, unreadable(err)
}

// unreadable marks an error of a container that is there, whose engine answers.
func unreadable(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, runtime.ErrUnavailable) || errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	return &readError{err}
}

// told ends a transfer's account, and remembers in the claim what it did.
func (k *Keeper) told(ctx context.Context, c Claim, direction string, t snapshot.Transfer, err error) (Claim, error) {
	ctx = context.WithoutCancel(ctx)
	details := t.Details()
	if err != nil {
		details["error"] = err.Error()
		return c, errors.Join(err, k.tell(ctx, c, activity.SyncFailed, direction, err.Error(), details, nil))
	}
	now := time.Now().UTC()
	what := fmt.Sprintf("%d files, %d bytes", t.Files, t.Bytes)
	if t.Unchanged {
		what = "unchanged"
	}
	c.Snapshot = t.Snapshot.ID
	if direction == "upload" {
		c.SyncedAt = &now
	}
	return c, k.tell(ctx, c, activity.SyncCompleted, direction, what, details, func(into *Claim) {
		into.Snapshot, into.SyncedAt = c.Snapshot, c.SyncedAt
	})
}

// tell records a step of a transfer.
func (k *Keeper) tell(ctx context.Context, c Claim, what activity.Type, direction, more string, details map[string]any, set func(*Claim)) error {
	if details == nil {
		details = map[string]any{}
	}
	details["direction"] = direction
	_, err := k.store.MoveClaim(ctx, Move{
		ID: c.ID, From: States(), Set: set,
		Events: []activity.Event{{
			Type: what, Message: direction + " of the tenant's state " + verbs[what] + more, Data: activity.Data(details),
		}},
	})
	if err != nil {
		return fmt.Errorf("record the %s of the state of claim %s: %w", direction, c.ID, err)
	}
	return nil
}

var verbs = map[activity.Type]string{
	activity.SyncStarted: "started: ", activity.SyncCompleted: "is done: ", activity.SyncFailed: "failed: ",
}
