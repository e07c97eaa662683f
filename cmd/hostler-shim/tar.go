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

// maxSmallFile is up to where a file is read whole before it is packed, so that
// one that is being written is packed as it was at one moment.
const maxSmallFile = 1 << 20

// packGCPercent is of the garbage collector. Every header is garbage at once, and
// this process, unlike init, is over soon: it may take a few megabytes for a sixth
// of its time.
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

// What one archive may cost. A tenant makes the tree that is packed.
const (
	// maxPath is the longest path of an entry, as the kernel has it. What lies
	// deeper no program could name.
	maxPath = 4096
	// maxNameBytes bounds the names of a directory, and of those above it, that are
	// held at once, in bytes.
	maxNameBytes = 64 << 20
	// nameOverhead is what a name costs besides its bytes.
	nameOverhead = 16
	// readdirBatch is how many names are read at once.
	readdirBatch = 4096
	// leaseTimeout is how long files that another process has a lease on may hold up
	// an archive. The kernel ends a lease after 45 s, unless told otherwise.
	leaseTimeout      = 90 * time.Second
	leasePollInterval = 20 * time.Millisecond
)

// packer writes what is below a folder as a tar stream.
type packer struct {
	dirs        *dirCache
	tar         *tar.Writer
	buffer      []byte
	nameBytes   int           // bytes of the names that are held
	leaseWaited time.Duration // for leases
}

// pack writes all below dir: files, folders and symbolic links. Sockets, pipes
// and devices mean nothing elsewhere and are left out.
func pack(dir *os.Root, out io.Writer) error {
	buffered := bufio.NewWriterSize(out, copyBufferSize)
	p := packer{dirs: newDirCache(dir), tar: tar.NewWriter(buffered), buffer: make([]byte, maxSmallFile)}
	defer p.dirs.closeAll()
	if err := p.packDir("."); err != nil && !isVanished(err) {
		return fmt.Errorf("pack: %w", err)
	}
	if err := p.tar.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// packDir packs what is in a folder, in the order of the names.
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

// readNames counts what it gives among the names that are held.
func (p *packer) readNames(name string) ([]string, error) {
	dir, err := p.dirs.get(name)
	if err != nil {
		return nil, err
	}
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var all []string
	held := p.nameBytes
	for {
		names, err := f.Readdirnames(readdirBatch)
		if p.nameBytes += namesSize(names); p.nameBytes > maxNameBytes {
			p.nameBytes = held
			return nil, badArchive("%q and what it is in hold more names than can be packed", name)
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

// isVanished says whether something is gone since it was looked at, or is
// something else by now.
func isVanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO)
}

func (p *packer) packEntry(in, base string) error {
	// Anew for each: packing the folder before may have closed it.
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
		return badArchive("a path in it is longer than %d bytes: %q...", maxPath, strings.ToValidUTF8(h.Name[:64], "?"))
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

// newHeader describes an entry as what it is, and not as whose it is: names and
// numbers of users are those of one container.
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
	// It may be something else by now, a pipe that nobody writes for example.
	fd, err := p.openLeased(dir, base)
	if err != nil {
		return err
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

// openLeased waits a while for a lease to end that another process has on the
// file: the first try has asked the kernel to end it.
func (p *packer) openLeased(dir int, base string) (int, error) {
	for {
		fd, err := openAt(dir, base, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
		if p.leaseWaited >= leaseTimeout {
			return -1, badArchive("%q is leased to another process", base)
		}
		<-time.After(leasePollInterval)
		p.leaseWaited += leasePollInterval
	}
}

// packLargeFile packs as much as the file had when it was looked at: one that grows is
// cut, and one that shrinks is filled with zeros, as other programs do it too.
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

// zeroReader has no end.
type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// fdReader reads a file that needs no more than its number.
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
