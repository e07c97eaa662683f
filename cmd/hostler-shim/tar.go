package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxSmallFile is the maximum size of a file that is read completely before it
// is packed, so that a concurrent write cannot change it halfway.
const maxSmallFile = 1 << 20

// packGCPercent is the garbage collector's target while packing. Every header
// is garbage immediately, and this process, unlike init, is short-lived: a few
// more megabytes save a sixth of its time.
const packGCPercent = 400

func runTar(args []string) int {
	return runTransfer("tar", args, func(f transferFlags) error {
		dir, err := openDir(f.root, f.dir)
		if err != nil {
			return err
		}
		debug.SetGCPercent(packGCPercent)
		return pack(dir, os.Stdout)
	})
}

// Limits on one archive. A tenant controls the tree that is packed.
const (
	// maxPath is the longest path of an entry, which is the kernel's limit. No
	// program could name a deeper file.
	maxPath = 4096
	// maxNameBytes bounds the memory for the names of a directory and of its
	// ancestors, in bytes.
	maxNameBytes = 64 << 20
	// nameOverhead is the memory that a name takes in addition to its bytes.
	nameOverhead = 16
	// readdirBatch is how many names are read at a time.
	readdirBatch = 4096
	// leaseTimeout bounds the total wait for files on which another process has
	// a lease. By default the kernel ends a lease after 45 s.
	leaseTimeout      = 90 * time.Second
	leasePollInterval = 20 * time.Millisecond
)

// packer writes the content of a directory as a tar stream.
type packer struct {
	dirs        *dirCache
	tar         *tar.Writer
	buffer      []byte
	nameBytes   int           // bytes of the names in memory
	leaseWaited time.Duration // total wait for leases
	progress    func() error  // called after each entry; nil for none
}

// pack writes everything below dir: files, directories and symbolic links. It
// omits sockets, pipes and devices, because they have no meaning elsewhere.
func pack(dir *os.Root, out io.Writer) error {
	return newPacker(dir).pack(out, func(p *packer) error { return p.packDir(".") })
}

func newPacker(dir *os.Root) *packer {
	return &packer{dirs: newDirCache(dir), buffer: make([]byte, maxSmallFile)}
}

// pack writes the archive of what entries packs.
func (p *packer) pack(out io.Writer, entries func(*packer) error) error {
	buffered := bufio.NewWriterSize(out, copyBufferSize)
	p.tar = tar.NewWriter(buffered)
	defer p.dirs.closeAll()
	if err := entries(p); err != nil && !isVanished(err) {
		return fmt.Errorf("pack: %w", err)
	}
	if err := p.tar.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// packDir packs the entries of a directory, sorted by name.
func (p *packer) packDir(name string) error {
	names, err := p.readNames(name)
	if err != nil {
		return err
	}
	held := p.nameBytes
	defer func() { p.nameBytes = held - namesSize(names) }()
	slices.Sort(names)
	for _, base := range names {
		if err := p.packEntry(name, base); err != nil && !isVanished(err) {
			return err
		}
		if p.progress == nil {
			continue
		}
		if err := p.progress(); err != nil {
			return err
		}
	}
	return nil
}

func namesSize(names []string) int {
	sum := 0
	for _, name := range names {
		sum += len(name) + nameOverhead
	}
	return sum
}

// readNames returns the names in a directory and adds their size to nameBytes.
func (p *packer) readNames(name string) ([]string, error) {
	dir, err := p.dirs.get(name)
	if err != nil {
		return nil, err
	}
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %.200q: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var all []string
	held := p.nameBytes
	for {
		names, err := f.Readdirnames(readdirBatch)
		if p.nameBytes += namesSize(names); p.nameBytes > maxNameBytes {
			p.nameBytes = held
			return nil, badArchive("%q and its parents hold more names than can be packed", name)
		}
		all = append(all, names...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			p.nameBytes = held
			return nil, err
		}
	}
}

// isVanished reports whether a file was removed or replaced after it was found.
func isVanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO)
}

func (p *packer) packEntry(in, base string) error {
	// Get the handle each time: packing the previous directory may have closed
	// it.
	dir, err := p.dirs.get(in)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	h := newHeader(path.Join(in, base), &st)
	if len(h.Name) > maxPath {
		return badArchive("a path is longer than %d bytes: %q...", maxPath, strings.ToValidUTF8(h.Name[:64], "?"))
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.packFile(dir, base, h.Name)
	case unix.S_IFLNK:
		n, err := unix.Readlinkat(dir, base, p.buffer)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(p.buffer[:n])
		return p.tar.WriteHeader(h)
	case unix.S_IFDIR:
		name := h.Name
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if err := p.tar.WriteHeader(h); err != nil {
			return err
		}
		return p.packDir(name)
	}
	return nil
}

// newHeader returns the header of an entry without its owner: users and groups
// are specific to one container.
func newHeader(name string, st *unix.Stat_t) *tar.Header {
	return &tar.Header{
		Typeflag:   tar.TypeReg,
		Name:       name,
		Mode:       int64(st.Mode & 0o7777),
		ModTime:    time.Unix(st.Mtim.Unix()),
		AccessTime: time.Unix(st.Atim.Unix()),
		ChangeTime: time.Unix(st.Ctim.Unix()),
		Format:     tar.FormatPAX,
	}
}

func (p *packer) packFile(dir int, base, name string) error {
	// The entry may have been replaced, for example by a pipe without a writer.
	fd, err := openLeased(dir, base, &p.leaseWaited)
	if err != nil {
		return fmt.Errorf("open %.200q: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	h := newHeader(name, &st)
	if h.Size = st.Size; h.Size > maxSmallFile {
		return p.packLargeFile(fd, h)
	}
	n, err := io.ReadFull(fdReader(fd), p.buffer)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	h.Size = int64(n)
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err = p.tar.Write(p.buffer[:n])
	return err
}

// openLeased opens a file. It waits for a lease of another process to end: the
// first attempt has made the kernel break it. It adds to the time waited for all
// files.
func openLeased(dir int, base string, waited *time.Duration) (int, error) {
	for {
		fd, err := openAt(dir, base, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
		if *waited >= leaseTimeout {
			return -1, badArchive("%q is leased to another process", base)
		}
		<-time.After(leasePollInterval)
		*waited += leasePollInterval
	}
}

// packLargeFile packs the size that the file had when it was opened. A file
// that has grown is truncated, and one that has shrunk is padded with zeros, as
// in other tar programs.
func (p *packer) packLargeFile(fd int, h *tar.Header) error {
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(p.tar, io.LimitReader(fdReader(fd), h.Size), p.buffer)
	if err != nil || n == h.Size {
		return err
	}
	_, err = io.CopyBuffer(p.tar, io.LimitReader(zeroReader{}, h.Size-n), p.buffer)
	return err
}

// zeroReader reads an endless stream of zeros.
type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// fdReader reads from a file descriptor.
type fdReader int

func (d fdReader) Read(b []byte) (int, error) {
	n, err := unix.Read(int(d), b)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(int(d), b)
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}
