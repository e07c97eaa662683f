package snapshot

import (
	"archive/tar"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/workload"
)

// plain puts files that somebody else keeps in the sink into the container: the
// objects below the mapping's sink path, each a file.
func (d *download) plain(ctx context.Context, m workload.Mapping) error {
	objects, err := d.plainObjects(ctx, m)
	if err != nil || len(objects) == 0 {
		return err
	}
	limits := bounds{bytes: d.sync.MaxSize, files: d.sync.MaxFiles}
	return d.put(ctx, m, func(w *tar.Writer, below string) error {
		for _, o := range objects {
			if err := limits.take(o.Size); err != nil {
				return err
			}
			if below != "" {
				o.name = below + "/" + o.name
			}
			if err := d.plainFile(ctx, w, o); err != nil {
				return err
			}
		}
		return nil
	})
}

// plainObject is an object and the name of its file.
type plainObject struct {
	Object
	name string
}

// plainObjects lists what a mapping that only downloads matches, but for
// anybody's snapshots: another workload's prefix may put all of its tenants
// below what is one tenant's here.
func (d *download) plainObjects(ctx context.Context, m workload.Mapping) ([]plainObject, error) {
	root := prefix(d.sync.Sink, d.to.Tenant)
	from := root
	if m.SinkPath != "" {
		from += m.SinkPath + "/"
	}
	var list []plainObject
	err := d.bucket.List(ctx, from, func(o Object) error {
		// A key that ends in a slash is how consoles show an empty folder.
		if strings.Contains("/"+o.Key, "/"+ownFolder) || strings.HasSuffix(o.Key, "/") {
			return nil
		}
		name, err := localName(o.Key[len(from):])
		if err != nil {
			return err
		}
		if matches(m.Pattern, name) {
			list = append(list, plainObject{o, name})
		}
		if len(list) > d.sync.MaxFiles {
			return fmt.Errorf("%w: it has more files than max_files allows", ErrTooLarge)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b plainObject) int { return strings.Compare(a.name, b.name) })
	return list, err
}

// plainMode is the mode of files that have none in the sink.
const plainMode = 0o644

func (d *download) plainFile(ctx context.Context, w *tar.Writer, o plainObject) error {
	r, err := d.bucket.Get(ctx, o.Key)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Key, err)
	}
	defer r.Close()
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: o.name, Mode: plainMode, Size: o.Size,
		ModTime: o.Time, Format: tar.FormatPAX,
	}
	if err := d.write(w, h, newMeter(r, d.progress), make([]byte, 32<<10)); err != nil {
		return fmt.Errorf("read %s: %w", o.Key, err)
	}
	return nil
}
