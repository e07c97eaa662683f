package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/workload"
)

// downloadRaw puts files that were not uploaded by Hostler into the container:
// the objects below the mapping's sink path, each as a file.
func (d *download) downloadRaw(ctx context.Context, m workload.Mapping) error {
	objects, err := d.listRaw(ctx, m)
	if err != nil || len(objects) == 0 {
		return err
	}
	to := newPace(ctx, nil)
	defer to.stop()
	return d.writeTree(to, m, nil, func(w *containerWriter) error {
		buf := make([]byte, rawBuffer)
		for _, o := range objects {
			if err := d.writeRaw(ctx, w, o, buf); err != nil {
				return fmt.Errorf("read %s: %w", o.Key, err)
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

// listRaw lists the objects that a mapping that only downloads matches, in the
// order of their files. The prefix of another workload may put all of its
// tenants below one tenant of this workload. Therefore the list contains no
// snapshots, and no other objects from directories of owners with snapshots.
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
	return d.orderRaw(list)
}

// orderRaw returns objects in the order of their files, each file once. It
// refuses those that cannot be files, and more bytes than a state may have.
func (d *download) orderRaw(list []rawObject) ([]rawObject, error) {
	left := d.sync.MaxSize
	for i, o := range list {
		var err error
		if list[i].name, err = cleanName(o.name); err != nil {
			return nil, err
		}
		if list[i].name == "." {
			return nil, archiveErrorf("the name %.200q is that of a directory", o.name)
		}
		if o.Size < 0 || o.Size > left {
			return nil, fmt.Errorf("%w: it has more bytes than max_size allows", ErrTooLarge)
		}
		left -= o.Size
	}
	slices.SortFunc(list, func(a, b rawObject) int {
		return cmp.Or(tree.Compare(a.name, b.name), strings.Compare(b.Key, a.Key))
	})
	list = slices.CompactFunc(list, func(a, b rawObject) bool { return a.name == b.name })
	for i := 1; i < len(list); i++ {
		if strings.HasPrefix(list[i].name, list[i-1].name+"/") {
			return nil, archiveErrorf("%.200q is below something that is not a directory", list[i].name)
		}
	}
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

const rawBuffer = 128 << 10

// writeRaw writes an object as a file.
func (d *download) writeRaw(ctx context.Context, w *containerWriter, o rawObject, buf []byte) error {
	r, err := d.bucket.Get(ctx, o.Key)
	if err != nil {
		return err
	}
	defer r.Close()
	e := tree.Entry{
		Path: o.name, Kind: tree.File, Mode: rawFileMode, Owner: tree.OwnUser, Group: tree.OwnGroup, Size: o.Size, ModTime: o.Time,
	}
	d.done.Files++ // first: after a failure it may be there, and the container is not what it was
	if err := w.create(e); err != nil {
		return err
	}
	left := o.Size
	for {
		n, err := r.Read(buf)
		if n > 0 {
			d.progress(int64(n))
		}
		if left -= int64(n); left < 0 || errors.Is(err, io.EOF) && left > 0 {
			return fmt.Errorf("%w: it does not have the size with which it was listed", ErrCorrupt)
		}
		if n > 0 {
			if err := w.write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	d.done.Bytes += o.Size
	d.count(item{entry: e})
	return nil
}
