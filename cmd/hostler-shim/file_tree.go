package main

import (
	"errors"
	"os"
	"runtime/debug"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// fileLeaseTimeout bounds the total wait for leases. It is less than the server
// waits for output.
const fileLeaseTimeout = 30 * time.Second

// tar packs a directory, or a single file.
func (w *fileWorker) tar() error {
	debug.SetGCPercent(packGCPercent)
	dir, err := w.openTree()
	if !errors.Is(err, unix.ENOTDIR) {
		if err != nil {
			return err
		}
		defer dir.Close()
		return w.pack(dir, "")
	}
	above, base, err := w.place.parent()
	if err != nil {
		return err
	}
	defer unix.Close(above)
	root, err := os.OpenRoot(fdPath(above))
	if err != nil {
		return err
	}
	defer root.Close()
	return w.pack(root, base)
}

// untar unpacks what it reads into a directory.
func (w *fileWorker) untar() error {
	dir, err := w.openTree()
	if errors.Is(err, unix.ENOENT) {
		if err := w.place.makeDirs(false); err != nil {
			return err
		}
		dir, err = w.openTree()
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	u := newUnpacker(dir, identity{})
	u.mayChown = false // what the user creates is the user's
	return u.unpack(w.in)
}

// openTree opens a directory. It follows links.
func (w *fileWorker) openTree() (*os.Root, error) {
	fd, err := w.place.open(unix.S_IFDIR, unix.O_PATH|unix.O_DIRECTORY, unix.ENOTDIR)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return os.OpenRoot(fdPath(fd))
}

// pack packs a directory, or the only entry of it that is named.
func (w *fileWorker) pack(dir *os.Root, only string) error {
	p := newPacker(dir)
	defer p.dirs.closeAll()
	if only != "" {
		at, err := p.dirs.get(".")
		if err != nil {
			return err
		}
		entry, err := statEntry(at, only)
		if err != nil {
			return err
		}
		if entry.Type == runtime.TypeOther {
			return errNotRegular
		}
	}
	p.leaseWaited = leaseTimeout - fileLeaseTimeout
	p.progress = w.working
	return p.pack(w.out, func(p *packer) error {
		if only == "" {
			return p.packDir(".")
		}
		if err := p.packEntry(".", only); isVanished(err) {
			return fileErrorf(runtime.FileChanged, "it was removed while it was read")
		} else if err != nil {
			return err
		}
		return nil
	})
}
