package snapshot

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Destination is the container and the owner of a download.
type Destination struct {
	Owner
	Container string
	Fence     int64 // of the flow, as runtime.Files.CopyIn takes it
	// Progress is as in Origin.
	Progress func(received int64)
}

// download is one download in progress.
type download struct {
	*Sink
	files Files
	to    Destination
	dir   string
	done  Transfer
}

// Download puts the tenant's current snapshot, and the files of mappings that
// only download, into a container whose volumes are empty. Other files in the
// container stay.
//
// A checksum is verified only at the end of a stream, when most of it is
// unpacked. After an error the contents of the container are undefined: it must
// be neither used nor uploaded.
func (s *Sink) Download(ctx context.Context, files Files, to Destination) (Transfer, error) {
	begin := time.Now()
	d := &download{Sink: s, files: files, to: to}
	err := d.run(ctx)
	d.done.Duration = time.Since(begin)
	if err != nil {
		return d.done, fmt.Errorf("download the state of tenant %q of workload %s: %w", to.Tenant, to.Workload, err)
	}
	return d.done, nil
}

func (d *download) run(ctx context.Context) error {
	var err error
	if d.dir, err = ownerDir(d.sync.Sink, d.to.Owner); err != nil {
		return err
	}
	h, err := d.loadManifest(ctx, d.dir, d.to.Owner)
	if err != nil {
		return err
	}
	d.done.Snapshot, _ = h.current()
	for _, m := range d.sync.Mappings {
		switch m.Direction {
		case workload.Upload:
			continue
		case workload.Download:
			err = d.downloadRaw(ctx, m)
		case workload.Bidirectional:
			err = d.downloadPart(ctx, m, findPart(d.done.Snapshot.Parts, m.SinkPath))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

// downloadPart unpacks the stored part of a mapping.
func (d *download) downloadPart(ctx context.Context, m workload.Mapping, p *Part) error {
	if p == nil || p.Files == 0 {
		return nil
	}
	return d.stream(ctx, m, func(w *tar.Writer, below string) error {
		limits := bounds{bytes: p.Bytes, files: p.Files}
		return d.read(ctx, d.dir, *p, d.progress, func(archive io.Reader) error {
			return d.unpack(w, archive, below, &limits)
		})
	})
}

func (d *download) progress(n int64) {
	d.done.Sent += n
	if d.to.Progress != nil {
		d.to.Progress(d.done.Sent)
	}
}

// unpack copies an archive's entries to the archive for the container.
func (d *download) unpack(w *tar.Writer, archive io.Reader, below string, limits *bounds) error {
	r := tar.NewReader(archive)
	buf := make([]byte, 128<<10)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		name, err := cleanName(h.Name)
		if err == nil && !keptTypes[h.Typeflag] {
			err = archiveErrorf("%.200q is not a file, directory or symbolic link", name)
		}
		if err == nil {
			err = limits.add(h.Size)
		}
		if err != nil {
			return err
		}
		if h, err = canonicalHeader(h, path.Join(below, name)); err != nil {
			return err
		}
		if err := d.write(w, h, r, buf); err != nil {
			return err
		}
	}
}

func (d *download) write(w *tar.Writer, h *tar.Header, content io.Reader, buf []byte) error {
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(w, content, buf)
	if err == nil && n != h.Size {
		err = fmt.Errorf("%w: %.200q does not have the size in its header", ErrCorrupt, h.Name)
	}
	d.done.Files++
	d.done.Bytes += n
	return archiveError(err)
}

// stream streams an archive that fill writes into the directory of a mapping,
// which need not exist. The argument below of fill is the prefix of the names.
func (d *download) stream(ctx context.Context, m workload.Mapping, fill func(w *tar.Writer, below string) error) error {
	if m.Volume != "" {
		return d.streamDir(ctx, m.Volume, relativeTo(m.Path, m.Volume), fill)
	}
	before := d.done
	err := d.streamDir(ctx, m.Path, "", fill)
	if !isMissing(err) {
		return err
	}
	d.done = before
	return d.streamDir(ctx, "/", relativeTo(m.Path, "/"), fill)
}

// relativeTo returns the path of p relative to a directory, "" for the
// directory itself.
func relativeTo(p, dir string) string {
	return strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
}

func (d *download) streamDir(ctx context.Context, dir, below string, fill func(*tar.Writer, string) error) error {
	r, w := io.Pipe()
	to := newPace(ctx, nil)
	defer to.stop()
	var g errgroup.Group
	g.Go(func() error {
		// Without a buffer each header would be sent separately.
		buf := bufio.NewWriterSize(pacedWriter{w, to}, 256<<10)
		t := tar.NewWriter(buf)
		err := fill(t, below)
		// The end is written only now, so that a damaged archive is never
		// complete.
		if err == nil {
			err = t.Close()
		}
		if err == nil {
			err = buf.Flush()
		}
		to.beginWait() // for the result, which comes when all is unpacked
		w.CloseWithError(err)
		return err
	})
	err := d.files.CopyIn(to.ctx, d.to.Container, dir, d.to.Fence, r)
	r.CloseWithError(errUploadAborted)
	if fillErr := g.Wait(); fillErr != nil && !errors.Is(fillErr, errUploadAborted) {
		return fillErr
	}
	return to.result(err)
}

// read reads the archive of a part and verifies that it is what was stored.
func (s *Sink) read(ctx context.Context, at string, p Part, progress func(int64), use func(archive io.Reader) error) error {
	object, err := s.bucket.Get(ctx, at+p.Object)
	if errors.Is(err, ErrNoObject) {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, p.Object)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", p.Object, err)
	}
	defer object.Close()
	m := newHashingReader(object, progress)
	z, err := newDecoder(m)
	if err != nil {
		return err
	}
	defer z.Close()
	archive := decodedReader{m, z}
	err = use(archive)
	// A tar reader stops at the archive's end mark, before the end of the
	// stream.
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(archive, maxTrailer))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, m)
	}
	isChanged := func() bool { return m.n != p.Size || m.sha256() != p.SHA256 }
	switch {
	case err == nil && isChanged():
		err = fmt.Errorf("%w: checksum mismatch", ErrCorrupt)
	case errors.Is(err, runtime.ErrBadArchive): // a changed byte may be seen before the checksum
		z.Close()
		if _, rest := io.Copy(io.Discard, m); rest == nil && isChanged() {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", p.Object, err)
	}
	return nil
}
