package snapshot

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/workload"
)

// downloadRaw puts files that were not uploaded by Hostler into the container:
// the objects below the mapping's sink path, each as a file.
func (d *download) downloadRaw(ctx context.Context, m workload.Mapping) error {
	objects, err := d.listRaw(ctx, m)
	if err != nil || len(objects) == 0 {
		return err
	}
	limits := bounds{bytes: d.sync.MaxSize, files: d.sync.MaxFiles}
	return d.stream(ctx, m, func(w *tar.Writer, below string) error {
		for _, o := range objects {
			if err := limits.add(o.Size); err != nil {
				return err
			}
			if below != "" {
				o.name = below + "/" + o.name
			}
			if err := d.writeRaw(ctx, w, o); err != nil {
				return err
			}
		}
		return nil
	})
}

// rawObject is an object and the name of its file.
type rawObject struct {
	Object
	name string
}

// listRaw lists the objects that a mapping that only downloads matches. The
// prefix of another workload may put all of its tenants below one tenant of
// this workload. Therefore the list contains no snapshots, and no other objects
// from directories of owners with snapshots.
func (d *download) listRaw(ctx context.Context, m workload.Mapping) ([]rawObject, error) {
	root := tenantPrefix(d.sync.Sink, d.to.Tenant)
	from := root
	if m.SinkPath != "" {
		from += m.SinkPath + "/"
	}
	others, err := d.parentOwners(ctx, root, from)
	if err != nil {
		return nil, err
	}
	var list []rawObject
	err = d.bucket.List(ctx, from, func(o Object) error {
		if i := strings.Index("/"+o.Key, "/"+ownDir); i >= 0 {
			others[o.Key[:i]] = true
			return nil
		}
		if strings.HasSuffix(o.Key, "/") {
			return nil // how consoles represent an empty directory
		}
		// A bad name is refused later, once it is known to be the tenant's own.
		name, err := cleanName(o.Key[len(from):])
		if err != nil || matches(m.Pattern, name) {
			list = append(list, rawObject{o, o.Key[len(from):]})
		}
		if len(list) > d.sync.MaxFiles {
			return fmt.Errorf("%w: it has more files than max_files allows", ErrTooLarge)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	delete(others, root)
	list = slices.DeleteFunc(list, func(o rawObject) bool { return isBelow(o.Key, others) })
	for i, o := range list {
		if list[i].name, err = cleanName(o.name); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b rawObject) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// parentOwners returns the directories between a tenant's own and one below it
// that belong to owners with snapshots.
func (d *download) parentOwners(ctx context.Context, root, from string) (map[string]bool, error) {
	owners := map[string]bool{}
	for i := len(root); i < len(from)-1; i++ {
		if from[i] != '/' {
			continue
		}
		dir := from[:i+1]
		err := d.bucket.List(ctx, dir+ownDir, func(Object) error { return errHasSnapshots })
		if errors.Is(err, errHasSnapshots) {
			owners[dir], err = true, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

var errHasSnapshots = errors.New("there are snapshots")

// isBelow reports whether an object is in one of the directories, or deeper.
func isBelow(key string, dirs map[string]bool) bool {
	for i := range key {
		if key[i] == '/' && dirs[key[:i+1]] {
			return true
		}
	}
	return false
}

// rawFileMode is the mode of downloaded raw objects, which have none in the
// sink.
const rawFileMode = 0o644

func (d *download) writeRaw(ctx context.Context, w *tar.Writer, o rawObject) error {
	r, err := d.bucket.Get(ctx, o.Key)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Key, err)
	}
	defer r.Close()
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: o.name, Mode: rawFileMode, Size: o.Size,
		ModTime: o.Time, Format: tar.FormatPAX,
	}
	if err := d.write(w, h, newHashingReader(r, d.progress), make([]byte, 32<<10)); err != nil {
		return fmt.Errorf("read %s: %w", o.Key, err)
	}
	return nil
}
