package snapshot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/workload"
)

// Destination is the container and the owner of a download.
type Destination struct {
	Owner
	Container string
	Fence     int64 // of the flow, as runtime.Files.FillTree takes it
	// Holds is the snapshot whose files the container holds, as far as no process
	// has changed them; "" when the mappings' directories are empty. No process
	// runs in a container with Holds, and Snapshot.CanUpdate is true.
	Holds string
	// Progress is as in Origin.
	Progress func(received int64)
}

// download is one download in progress.
type download struct {
	*Sink
	files Files
	to    Destination
	dir   string // the owner's directory
	head  manifest
	held  Snapshot // that of to.Holds; one without an ID when it is not listed

	mu   sync.Mutex // guards done.Sent
	done Transfer
}

// Download puts the tenant's current snapshot, and the files of mappings that
// only download, into a container. Other files in the container stay. If the
// container holds a snapshot, only what differs is written, and what the mappings
// match and the current snapshot does not have is removed.
//
// Each chunk is verified before it is written. After an error the contents of
// the container are undefined: it must be neither used nor uploaded.
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
	if d.head, err = d.loadManifest(ctx, d.dir, d.to.Owner); err != nil {
		return err
	}
	d.done.Snapshot, _ = d.head.current()
	for _, s := range d.head.Snapshots {
		if s.ID == d.to.Holds && s.ID != "" {
			d.held = s
		}
	}
	if err := d.checkSize(); err != nil {
		return err
	}
	for i, m := range d.sync.Mappings {
		if d.to.Holds != "" && m.Volume == "" && m.Direction != workload.Upload {
			return fmt.Errorf("%s: a container that holds a snapshot can be updated in its volumes only", m.Path)
		}
		switch m.Direction {
		case workload.Upload:
			continue
		case workload.Download:
			err = d.downloadRaw(ctx, m)
		case workload.Bidirectional:
			err = d.downloadPart(ctx, i)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

// checkSize refuses a state beyond the workload's limits before any of it is written:
// a list of snapshots, and small packs, can describe files that fill every disk.
func (d *download) checkSize() error {
	bytes, files := d.sync.MaxSize, d.sync.MaxFiles
	for _, m := range d.sync.Mappings {
		if m.Direction != workload.Bidirectional {
			continue
		}
		_, p := numberedPart(d.done.Snapshot, m.SinkPath)
		if bytes -= p.Bytes; bytes < 0 {
			return fmt.Errorf("%w: snapshot %s has more bytes than max_size allows, which is %d: raise it", ErrTooLarge, d.done.Snapshot.ID, d.sync.MaxSize)
		}
		if files -= p.Files; files < 0 {
			return fmt.Errorf("%w: snapshot %s has more files than max_files allows, which is %d: raise it", ErrTooLarge, d.done.Snapshot.ID, d.sync.MaxFiles)
		}
	}
	return nil
}

// progress counts received bytes. Several goroutines call it.
func (d *download) progress(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done.Sent += n
	if d.to.Progress != nil {
		d.to.Progress(d.done.Sent)
	}
}
