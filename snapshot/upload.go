package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// peekSize is how much an upload may read and store without memory from the
// quota. Most uploads need less: a few small files have changed. It is small
// because the number of such uploads is not bounded.
const peekSize = 256 << 10

// upload is one upload in progress.
type upload struct {
	*Sink
	files    Files
	origin   Origin
	dir      string // the owner's directory
	id       string // of the snapshot that it makes
	previous manifest
	limit    *time.Timer // ends the upload
	began    time.Time   // when limit was set
	// fresh means that the last indexes are not used, because one is damaged.
	fresh bool

	// mu guards what follows. Progress is called with it held, so that its calls
	// do not overlap.
	mu     sync.Mutex
	sent   int64
	memory *memoryRequest // its memory, once granted
}

// Upload makes a snapshot of the container's files, which may be in use: hooks
// must flush what has to be consistent. It reads the files that have changed, as
// far as it knows, and stores the chunks that the last snapshot does not have.
// Nothing is stored when the current snapshot already holds the same.
//
// After an error the current snapshot is unchanged, with one exception: when
// the bucket did not answer the last step, it may be the new one. Uploading
// again is correct in both cases. Only ErrStale is final.
func (s *Sink) Upload(ctx context.Context, files Files, o Origin) (Transfer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(uploadTimeout, func() { cancel(errUploadTimeout) })
	defer limit.Stop()
	begin := time.Now()
	t, err := s.upload(ctx, limit, files, o)
	t.Duration = time.Since(begin)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return t, fmt.Errorf("upload the state of tenant %q of workload %s: %w", o.Tenant, o.Workload, err)
	}
	return t, nil
}

var (
	errUploadTimeout = errors.New("it took longer than " + uploadTimeout.String())
	// errUploadAborted ends the storing of what is not needed.
	errUploadAborted = errors.New("the upload was aborted")
	// errLarge indicates that an upload needs memory from the quota, and that there
	// is none at the moment.
	errLarge = errors.New("the upload is large")
)

func (s *Sink) upload(ctx context.Context, limit *time.Timer, files Files, o Origin) (Transfer, error) {
	at, err := ownerDir(s.sync.Sink, o.Owner)
	if err != nil {
		return Transfer{}, err
	}
	before, err := s.loadManifest(ctx, at, o.Owner)
	if err != nil {
		return Transfer{}, err
	}
	if before.Fence > o.Fence {
		return Transfer{}, ErrStale
	}
	if before.Generation == 0 {
		_, _ = rand.Read(before.Salt[:]) // never fails
	}
	u := &upload{Sink: s, files: files, origin: o, dir: at, id: newID(), previous: before, limit: limit, began: time.Now()}
	defer u.releaseMemory()
	return u.run(ctx)
}

// run makes passes over the container until one is complete. Only the last one
// commits.
func (u *upload) run(ctx context.Context) (Transfer, error) {
	for {
		t, err := u.pass(ctx)
		switch {
		case errors.Is(err, errLarge):
			if err := u.acquireMemory(ctx); err != nil {
				return Transfer{Sent: u.sent}, err
			}
		case errors.Is(err, ErrCorrupt) && !u.fresh:
			// The container has the files; the next snapshot is whole again.
			u.fresh = true
		case err != nil:
			return Transfer{Sent: u.sent}, err
		default:
			return t, nil
		}
	}
}

// finish makes the parts the current snapshot, unless they already are.
func (u *pass) finish(ctx context.Context) (Transfer, error) {
	current, _ := u.previous.current()
	t := u.moved
	t.Unchanged = !u.isChanged(u.parts)
	next := u.previous
	t.Snapshot = current
	if !t.Unchanged {
		t.Snapshot = Snapshot{
			ID: u.id, Time: time.Now().UTC(), Parts: u.parts, Reason: u.origin.Reason,
			Revision: u.origin.Revision, Claim: u.origin.Claim, Container: u.origin.Container,
		}
		next = u.previous.withSnapshot(t.Snapshot, u.sync.Keep)
	}
	t.Files, t.Bytes, t.Sent = t.Snapshot.Files(), t.Snapshot.Bytes(), u.sent
	if t.Unchanged && u.previous.Fence == u.origin.Fence && u.origin.Reason != releaseReason {
		return t, nil
	}
	// Even if unchanged, the fence must be stored, so that no older claim can
	// follow. A release takes the next number also if the fence is the same: the
	// bucket may still get the request that commits an earlier upload of the claim,
	// whose sender was canceled or killed, and what that one has seen is older.
	next.Fence, next.admit = u.origin.Fence, u.admit
	if err := u.commit(ctx, u.dir, u.previous, next, u.known...); err != nil {
		return Transfer{Sent: u.sent}, err
	}
	return t, nil
}

// admit returns an error if the upload must not commit any more.
func (u *upload) admit(ctx context.Context) error {
	if isLate(u.began) {
		return errUploadTimeout
	}
	if u.origin.Verify == nil {
		return nil
	}
	return u.origin.Verify(ctx)
}

// isChanged reports whether the parts are not those of the current snapshot.
func (u *upload) isChanged(parts []Part) bool {
	current, ok := u.previous.current()
	same := func(p, q Part) bool {
		return p.Index == q.Index && p.Path == q.Path && p.Pattern == q.Pattern && p.Mode == q.Mode
	}
	return !ok || !slices.EqualFunc(current.Parts, parts, same)
}

// findPart returns the part of a sink path, or nil.
func findPart(parts []Part, sinkPath string) *Part {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.SinkPath == sinkPath })
	if i < 0 {
		return nil
	}
	return &parts[i]
}

// progress counts bytes that are sent.
func (u *upload) progress(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent += n
	if u.origin.Progress != nil {
		u.origin.Progress(u.sent)
	}
}

// containerError marks errors that are caused by the contents of the container.
func containerError(err error) error {
	if errors.Is(err, runtime.ErrBadArchive) || errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrContainer, err)
	}
	return err
}
