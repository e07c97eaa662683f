package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"time"

	"github.com/hostler/hostler/runtime/tree"
	"golang.org/x/sys/unix"
)

// scanGCPercent is the garbage collector's target while scanning: the process is
// short-lived, and holds little.
const scanGCPercent = 100

func runScan(args []string) int {
	return runTransfer("scan", args, func(f transferFlags) error {
		dir, err := openDir(f.root, f.dir)
		if err != nil {
			return err
		}
		debug.SetGCPercent(scanGCPercent)
		return scanTree(dir, ownerOf(f.user), f.live, os.Stdin, os.Stdout)
	})
}

// ownerOf returns the container's user. Files can be saved also if a tenant has
// made the user unknown. Then they have numeric owners.
func ownerOf(user string) treeOwner {
	id, err := containerAccounts.lookup(user)
	return treeOwner{identity: id, isKnown: err == nil}
}

// scanTree sends what is below dir, see tree.ScanWriter. It lists the next batch
// while the server reads one.
func scanTree(dir *os.Root, owner treeOwner, live bool, from io.Reader, to io.Writer) error {
	w := newTreeWalker(dir, owner, newStamper(live))
	a := &walkAhead{batches: make(chan *tree.Batch), free: make(chan *tree.Batch, 2), stop: make(chan struct{})}
	for range cap(a.free) {
		a.free <- new(tree.Batch)
	}
	done := make(chan struct{})
	go func() { // ends with the tree, or when stop is closed
		defer close(done)
		defer w.dirs.closeAll()
		a.err = a.walk(w)
		close(a.batches)
	}()
	defer func() { close(a.stop); <-done }()
	f := newFileSender(dir, owner, live, tree.NewScanWriter(from, to))
	defer f.dirs.closeAll()
	for b := range a.batches {
		if err := f.sendBatch(b); err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		a.free <- b
	}
	if a.err != nil {
		return fmt.Errorf("scan: %w", a.err)
	}
	return f.out.End()
}

// walkAhead are the batches between the goroutine that lists a tree and the one
// that sends it.
type walkAhead struct {
	batches chan *tree.Batch
	free    chan *tree.Batch
	stop    chan struct{}
	err     error // when batches is closed
}

// walk lists the tree in batches.
func (a *walkAhead) walk(w *treeWalker) error {
	var b *tree.Batch
	for {
		e, more, err := w.next()
		if err != nil {
			return err
		}
		if b != nil && (!more || !b.Add(e)) {
			select {
			case a.batches <- b:
			case <-a.stop:
				return nil
			}
			b = nil
		}
		if !more {
			return nil
		}
		if b == nil {
			select {
			case b = <-a.free:
			case <-a.stop:
				return nil
			}
			b.Reset()
			b.Add(e)
		}
	}
}

// fileSender sends the files that the server asks for.
type fileSender struct {
	dirs        *dirCache
	owner       treeOwner
	stamps      *stamper
	out         *tree.ScanWriter
	buffer      []byte
	leaseWaited time.Duration
}

func newFileSender(dir *os.Root, owner treeOwner, live bool, out *tree.ScanWriter) *fileSender {
	dirs := newDirCache(dir)
	dirs.followsNoLink = true
	return &fileSender{dirs: dirs, owner: owner, stamps: newStamper(live), out: out, buffer: make([]byte, tree.MaxData)}
}

func (f *fileSender) sendBatch(b *tree.Batch) error {
	wanted, err := f.out.Send(b)
	if err != nil {
		return err
	}
	for _, i := range wanted {
		if err := f.send(b.Entries[i].Path); err != nil {
			return err
		}
	}
	return nil
}

// send sends a file, or that there is none any more.
func (f *fileSender) send(name string) error {
	now := time.Now()
	fd, err := f.open(name)
	if isVanished(err) {
		return f.out.Gone()
	}
	if err != nil {
		return fmt.Errorf("open %.200q: %w", name, err)
	}
	defer unix.Close(fd)
	isSettled := f.stamps.settle(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return f.out.Gone()
	}
	e := f.owner.entry(name, &st)
	if isSettled {
		e.Stamp = f.stamps.opened(fd, &st, now)
	}
	if err := f.out.File(e); err != nil {
		return err
	}
	if st.Blocks*512 < st.Size {
		err = f.sendSparse(fd, st.Size)
	} else {
		err = f.sendRange(fd, 0, st.Size)
	}
	if err != nil {
		return fmt.Errorf("read %.200q: %w", name, err)
	}
	return nil
}

func (f *fileSender) open(name string) (int, error) {
	dir, err := f.dirs.get(path.Dir(name))
	if err != nil {
		return -1, err
	}
	return openLeased(dir, path.Base(name), &f.leaseWaited)
}

// sendSparse sends a file with holes. Where they are unknown, all of it is data.
func (f *fileSender) sendSparse(fd int, size int64) error {
	for at := int64(0); at < size; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO):
			data = size // only a hole is left
		case err != nil:
			return f.sendRange(fd, at, size)
		}
		data = max(at, min(data, size))
		if err := f.out.Hole(data - at); err != nil {
			return err
		}
		if at = data; at == size {
			return nil
		}
		hole, err := unix.Seek(fd, at, unix.SEEK_HOLE)
		if err != nil || hole <= at || hole > size {
			hole = size
		}
		if err := f.sendRange(fd, at, hole); err != nil {
			return err
		}
		at = hole
	}
	return nil
}

// sendRange sends a part of a file as data. What the file has lost since it was
// opened is zeros.
func (f *fileSender) sendRange(fd int, at, end int64) error {
	for at < end {
		n, err := unix.Pread(fd, f.buffer[:min(end-at, int64(len(f.buffer)))], at)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return f.out.Hole(end - at)
		}
		if _, err := f.out.Write(f.buffer[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
