package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// holdback is how much of a compressed archive is held in memory before its
// upload begins. A state that ends within it is compared with the current
// snapshot before anything is sent, and most do. A mapping whose last snapshot
// was larger is read twice: reading a container costs less than sending what
// is there already. It is small because nothing bounds how many are held.
const holdback = 256 << 10

// upload is one upload under way.
type upload struct {
	*Sink
	files  Files
	origin Origin
	at     string // the owner's folder
	before head
	bounds bounds
	sent   int64
	limit  *time.Timer // ends the upload
	turn   *turn       // its memory, once it has it
}

// Upload makes a snapshot of the container's files, which may be in use: what
// has to be consistent is for hooks to flush. Nothing is stored when the
// current snapshot holds the same already.
//
// After an error the current snapshot is what it was, with one exception: when
// the bucket did not answer to the last step, it may be the new one. Uploading
// again is right in both cases. ErrStale alone is final.
func (s *Sink) Upload(ctx context.Context, files Files, o Origin) (Transfer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(longestUpload, func() { cancel(errTooLong) })
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

var errTooLong = errors.New("it took longer than " + longestUpload.String())

func (s *Sink) upload(ctx context.Context, limit *time.Timer, files Files, o Origin) (Transfer, error) {
	at, err := folder(s.sync.Sink, o.Owner)
	if err != nil {
		return Transfer{}, err
	}
	before, err := s.head(ctx, at, o.Owner)
	if err != nil {
		return Transfer{}, err
	}
	if before.Fence > o.Fence {
		return Transfer{}, ErrStale
	}
	u := &upload{
		Sink: s, files: files, origin: o, at: at, before: before,
		bounds: newBounds(s.sync.MaxSize, s.sync.MaxFiles), limit: limit,
	}
	defer u.endTurn()
	parts, err := u.parts(ctx)
	if err != nil {
		return Transfer{Sent: u.sent}, err
	}
	return u.finish(ctx, parts)
}

// parts packs every mapping that is kept. Parts of mappings that the workload
// has no more stay as they are: to leave a line out of a file must not delete
// what tenants have.
func (u *upload) parts(ctx context.Context) ([]Part, error) {
	current, _ := u.before.current()
	var parts []Part
	for _, m := range u.sync.Mappings {
		if m.Direction == workload.Download {
			continue
		}
		p, err := u.part(ctx, m, find(current.Parts, m.SinkPath))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		parts = append(parts, p)
	}
	for _, p := range current.Parts {
		if find(parts, p.SinkPath) == nil {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// find finds the part of a sink path.
func find(parts []Part, sinkPath string) *Part {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.SinkPath == sinkPath })
	if i < 0 {
		return nil
	}
	return &parts[i]
}

// finish makes the parts the current snapshot, unless they are it.
func (u *upload) finish(ctx context.Context, parts []Part) (Transfer, error) {
	t := Transfer{Sent: u.sent}
	current, ok := u.before.current()
	objects := func(p, q Part) bool { return p.Object == q.Object }
	t.Unchanged = ok && slices.EqualFunc(current.Parts, parts, objects)
	next := u.before
	t.Snapshot = current
	if !t.Unchanged {
		t.Snapshot = Snapshot{
			ID: newID(), Time: time.Now().UTC(), Parts: parts, Reason: u.origin.Reason,
			Revision: u.origin.Revision, Claim: u.origin.Claim, Container: u.origin.Container,
		}
		next = u.before.with(t.Snapshot, u.sync.Keep)
	}
	t.Files, t.Bytes = t.Snapshot.Files(), t.Snapshot.Bytes()
	if t.Unchanged && u.before.Fence == u.origin.Fence {
		return t, nil
	}
	// Unchanged or not, a later claim has been here: no older one may follow.
	next.Fence = u.origin.Fence
	if err := u.commit(ctx, u.at, u.before, next); err != nil {
		return Transfer{Sent: u.sent}, err
	}
	return t, nil
}

// part keeps one mapping: as a new object, or as the one before when that
// holds the same.
func (u *upload) part(ctx context.Context, m workload.Mapping, last *Part) (Part, error) {
	if last != nil && last.Size > holdback {
		limits := u.bounds
		sum, err := u.pack(ctx, io.Discard, m, last, &limits)
		if err != nil {
			return Part{}, err
		}
		if sum.Digest == last.Digest {
			u.bounds = limits
			return *last, nil
		}
	} else {
		p, err := u.keep(ctx, m, last)
		if !errors.Is(err, errLarge) {
			return p, err
		}
	}
	if err := u.takeTurn(ctx); err != nil {
		return Part{}, err
	}
	return u.keep(ctx, m, last)
}

// keep packs a mapping into the bucket. Without a turn it does so only where
// the archive is short, and is errLarge where it is not.
func (u *upload) keep(ctx context.Context, m workload.Mapping, last *Part) (Part, error) {
	limits := u.bounds
	r, w := io.Pipe()
	var g errgroup.Group
	var sum contents
	g.Go(func() error {
		var err error
		sum, err = u.compress(ctx, w, m, last, &limits)
		w.CloseWithError(err) // nil is io.EOF
		return err
	})
	p, err := u.store(ctx, r, func() (contents, bool) {
		same := g.Wait() == nil && last != nil && sum.Digest == last.Digest
		return sum, same
	})
	r.CloseWithError(errGivenUp)
	if packErr := g.Wait(); packErr != nil && !errors.Is(packErr, errGivenUp) {
		return Part{}, packErr
	}
	if err != nil {
		return Part{}, err
	}
	u.bounds = limits
	if p.Object == "" {
		return *last, nil
	}
	p.SinkPath, p.Path, p.Pattern, p.Mode = m.SinkPath, m.Path, m.Pattern, m.Mode
	p.Digest, p.Files, p.Bytes, p.Skipped = sum.Digest, sum.Files, sum.Bytes, sum.Skipped
	return p, nil
}

var (
	// errGivenUp ends a packing that nobody reads any more.
	errGivenUp = errors.New("the upload was given up")
	// errLarge says that an archive takes a turn.
	errLarge = errors.New("the archive is not short")
)

// store puts an archive into the bucket, unless it is short and whole says that
// it is what there is already: then the part has no object.
func (u *upload) store(ctx context.Context, archive io.Reader, whole func() (contents, bool)) (Part, error) {
	var held bytes.Buffer
	n, err := io.Copy(&held, io.LimitReader(archive, holdback))
	if err != nil {
		return Part{}, err
	}
	if n < holdback {
		if _, same := whole(); same {
			return Part{}, nil
		}
	} else if u.turn == nil {
		return Part{}, errLarge
	}
	p := Part{Object: dataFolder + newID() + ".tar.zst"}
	m := newMeter(io.MultiReader(&held, archive), u.progress)
	flow.CrashPoint("snapshot", "object", "before")
	if err := u.bucket.Put(ctx, u.at+p.Object, m); err != nil {
		return Part{}, fmt.Errorf("store %s: %w", p.Object, err)
	}
	flow.CrashPoint("snapshot", "object", "after")
	p.Size, p.SHA256 = m.n, m.sha256()
	return p, nil
}

const dataFolder = "data/"

func (u *upload) progress(n int64) {
	u.sent += n
	if u.origin.Progress != nil {
		u.origin.Progress(u.sent)
	}
}

// compress is pack through the compressor.
func (u *upload) compress(ctx context.Context, w io.Writer, m workload.Mapping, last *Part, b *bounds) (contents, error) {
	z, err := newEncoder(w, windowFor(last))
	if err != nil {
		return contents{}, err
	}
	sum, err := u.pack(ctx, z, m, last, b)
	if err != nil {
		_ = z.Close() // what was packed so far is of no use
		return contents{}, err
	}
	return sum, z.Close()
}

// pack writes a mapping's files as a canonical archive. One that only adds is
// followed by what the last snapshot has and the container has not.
func (u *upload) pack(ctx context.Context, w io.Writer, m workload.Mapping, last *Part, b *bounds) (contents, error) {
	p := newPacker(w, m.Pattern, b)
	if err := u.packContainer(ctx, p, m); err != nil {
		return contents{}, err
	}
	if m.Mode == workload.ModeCopy && last != nil {
		err := u.read(ctx, u.at, *last, nil, func(archive io.Reader) error {
			return p.add(archive, p.notInContainer)
		})
		if err != nil {
			return contents{}, blameState(err)
		}
	}
	return p.finish()
}

// packContainer packs what is in the container, and waits for it no longer than
// a pace allows.
func (u *upload) packContainer(ctx context.Context, p *packer, m workload.Mapping) error {
	from := newPace(ctx, func() bool { return u.turn != nil && u.turns.crowded() })
	defer from.stop()
	from.wait()
	archive, err := u.files.GetFiles(from.ctx, u.origin.Container, m.Path)
	if err != nil && !isMissing(err) {
		return from.outcome(err)
	}
	if err != nil {
		return nil
	}
	err = p.add(bufio.NewReaderSize(pacedReader{archive, from}, readBuffer), p.fromContainer)
	_ = archive.Close()
	return from.outcome(blameState(err))
}

// readBuffer is how much of an archive is read from a container at a time.
const readBuffer = 64 << 10

// blameState marks errors of which what is in the container is the cause.
func blameState(err error) error {
	if errors.Is(err, runtime.ErrBadArchive) || errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrSource, err)
	}
	return err
}
