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

// peekSize is how much of a compressed archive is held in memory before its
// upload begins. A smaller state, as most are, is compared with the current
// snapshot before anything is sent. A mapping whose last snapshot was larger is
// read twice: reading a container costs less than sending what is already
// stored. It is small because the number of such buffers is not bounded.
const peekSize = 256 << 10

// upload is one upload in progress.
type upload struct {
	*Sink
	files    Files
	origin   Origin
	dir      string // the owner's directory
	previous manifest
	bounds   bounds
	sent     int64
	limit    *time.Timer    // ends the upload
	memory   *memoryRequest // its memory, once granted
}

// Upload makes a snapshot of the container's files, which may be in use: hooks
// must flush what has to be consistent. Nothing is stored when the current
// snapshot already holds the same.
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

var errUploadTimeout = errors.New("it took longer than " + uploadTimeout.String())

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
	u := &upload{
		Sink: s, files: files, origin: o, dir: at, previous: before,
		bounds: newBounds(s.sync.MaxSize, s.sync.MaxFiles), limit: limit,
	}
	defer u.releaseMemory()
	parts, err := u.uploadParts(ctx)
	if err != nil {
		return Transfer{Sent: u.sent}, err
	}
	return u.finish(ctx, parts)
}

// uploadParts packs every mapping that is uploaded. Parts of mappings that the
// workload no longer has stay unchanged: removing a line from a workload file
// must not delete tenants' state.
func (u *upload) uploadParts(ctx context.Context) ([]Part, error) {
	current, _ := u.previous.current()
	var parts []Part
	for _, m := range u.sync.Mappings {
		if m.Direction == workload.Download {
			continue
		}
		p, err := u.uploadPart(ctx, m, findPart(current.Parts, m.SinkPath))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		parts = append(parts, p)
	}
	for _, p := range current.Parts {
		if findPart(parts, p.SinkPath) == nil {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// findPart returns the part of a sink path, or nil.
func findPart(parts []Part, sinkPath string) *Part {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.SinkPath == sinkPath })
	if i < 0 {
		return nil
	}
	return &parts[i]
}

// finish makes the parts the current snapshot, unless they already are.
func (u *upload) finish(ctx context.Context, parts []Part) (Transfer, error) {
	t := Transfer{Sent: u.sent}
	current, ok := u.previous.current()
	objects := func(p, q Part) bool { return p.Object == q.Object }
	t.Unchanged = ok && slices.EqualFunc(current.Parts, parts, objects)
	next := u.previous
	t.Snapshot = current
	if !t.Unchanged {
		t.Snapshot = Snapshot{
			ID: newID(), Time: time.Now().UTC(), Parts: parts, Reason: u.origin.Reason,
			Revision: u.origin.Revision, Claim: u.origin.Claim, Container: u.origin.Container,
		}
		next = u.previous.withSnapshot(t.Snapshot, u.sync.Keep)
	}
	t.Files, t.Bytes = t.Snapshot.Files(), t.Snapshot.Bytes()
	if t.Unchanged && u.previous.Fence == u.origin.Fence {
		return t, nil
	}
	// Even if unchanged, the fence must be stored, so that no older claim can
	// follow.
	next.Fence = u.origin.Fence
	if err := u.commit(ctx, u.dir, u.previous, next); err != nil {
		return Transfer{Sent: u.sent}, err
	}
	return t, nil
}

// uploadPart stores one mapping: as a new object, or as the previous one when
// that holds the same.
func (u *upload) uploadPart(ctx context.Context, m workload.Mapping, last *Part) (Part, error) {
	if last != nil && last.Size > peekSize {
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
		p, err := u.storePart(ctx, m, last)
		if !errors.Is(err, errLarge) {
			return p, err
		}
	}
	if err := u.acquireMemory(ctx); err != nil {
		return Part{}, err
	}
	return u.storePart(ctx, m, last)
}

// storePart packs a mapping into the bucket. Without memory it does so only if
// the archive is smaller than peekSize, and otherwise returns errLarge.
func (u *upload) storePart(ctx context.Context, m workload.Mapping, last *Part) (Part, error) {
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
	p, err := u.storeArchive(ctx, r, func() (contents, bool) {
		same := g.Wait() == nil && last != nil && sum.Digest == last.Digest
		return sum, same
	})
	r.CloseWithError(errUploadAborted)
	if packErr := g.Wait(); packErr != nil && !errors.Is(packErr, errUploadAborted) {
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
	// errUploadAborted ends a packing whose reader has stopped.
	errUploadAborted = errors.New("the upload was aborted")
	// errLarge indicates that an archive needs memory from the quota.
	errLarge = errors.New("the archive is large")
)

// storeArchive puts an archive into the bucket, unless it is smaller than
// peekSize and whole reports that it is already stored: then the part has no
// object.
func (u *upload) storeArchive(ctx context.Context, archive io.Reader, whole func() (contents, bool)) (Part, error) {
	var held bytes.Buffer
	n, err := io.Copy(&held, io.LimitReader(archive, peekSize))
	if err != nil {
		return Part{}, err
	}
	if n < peekSize {
		if _, same := whole(); same {
			return Part{}, nil
		}
	} else if u.memory == nil {
		return Part{}, errLarge
	}
	p := Part{Object: dataDir + newID() + ".tar.zst"}
	m := newHashingReader(io.MultiReader(&held, archive), u.progress)
	flow.Failpoint("snapshot", "object", "before")
	if err := u.bucket.Put(ctx, u.dir+p.Object, m); err != nil {
		return Part{}, fmt.Errorf("store %s: %w", p.Object, err)
	}
	flow.Failpoint("snapshot", "object", "after")
	p.Size, p.SHA256 = m.n, m.sha256()
	return p, nil
}

const dataDir = "data/"

func (u *upload) progress(n int64) {
	u.sent += n
	if u.origin.Progress != nil {
		u.origin.Progress(u.sent)
	}
}

// compress packs into a compressor.
func (u *upload) compress(ctx context.Context, w io.Writer, m workload.Mapping, last *Part, b *bounds) (contents, error) {
	z, err := newEncoder(w, windowFor(last))
	if err != nil {
		return contents{}, err
	}
	sum, err := u.pack(ctx, z, m, last, b)
	if err != nil {
		_ = z.Close() // the incomplete archive is discarded
		return contents{}, err
	}
	return sum, z.Close()
}

// pack writes a mapping's files as a canonical archive. For a mapping that only
// adds, the entries follow that are in the last snapshot and not in the
// container.
func (u *upload) pack(ctx context.Context, w io.Writer, m workload.Mapping, last *Part, b *bounds) (contents, error) {
	p := newPacker(w, m.Pattern, b)
	if err := u.packContainer(ctx, p, m); err != nil {
		return contents{}, err
	}
	if m.Mode == workload.ModeCopy && last != nil {
		err := u.read(ctx, u.dir, *last, nil, func(archive io.Reader) error {
			return p.addArchive(archive, p.notInContainer)
		})
		if err != nil {
			return contents{}, containerError(err)
		}
	}
	return p.finish()
}

// packContainer packs the files in the container, and waits for it no longer
// than its pace allows.
func (u *upload) packContainer(ctx context.Context, p *packer, m workload.Mapping) error {
	from := newPace(ctx, func(waited time.Duration) error {
		if u.memory == nil {
			return nil
		}
		return u.quota.checkSlow(u.memory, waited)
	})
	defer from.stop()
	from.beginWait()
	archive, err := u.files.CopyOut(from.ctx, u.origin.Container, m.Path)
	if err != nil && !isMissing(err) {
		return from.result(err)
	}
	if err != nil {
		return nil
	}
	err = p.addArchive(bufio.NewReaderSize(pacedReader{archive, from}, readBuffer), p.fromContainer)
	_ = archive.Close()
	return from.result(containerError(err))
}

// readBuffer is how much of an archive is read from a container at a time.
const readBuffer = 64 << 10

// containerError marks errors that are caused by the contents of the container.
func containerError(err error) error {
	if errors.Is(err, runtime.ErrBadArchive) || errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrContainer, err)
	}
	return err
}
