package snapshot

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/hostler/hostler/runtime"
)

// contents describes the contents of an archive.
type contents struct {
	Digest  string
	Files   int
	Bytes   int64
	Skipped int
}

// bounds are the remaining limits of a state.
type bounds struct {
	bytes int64
	files int
	// What a pattern excludes is read too, and discarded.
	leftOutBytes int64
	leftOutFiles int
}

// leftOutFactor is how many times the limits of a state its pattern may
// exclude. A sparse file can be of any size.
const leftOutFactor = 10

func newBounds(bytes int64, files int) bounds {
	return bounds{
		bytes: bytes, files: files,
		leftOutBytes: min(bytes, math.MaxInt64/leftOutFactor) * leftOutFactor,
		leftOutFiles: min(files, math.MaxInt/leftOutFactor) * leftOutFactor,
	}
}

// leaveOut subtracts an entry that the pattern excludes.
func (b *bounds) leaveOut(size int64) error {
	b.leftOutFiles--
	if b.leftOutFiles < 0 || size < 0 || size > b.leftOutBytes {
		return fmt.Errorf("%w: the files that its pattern excludes exceed %d times max_files or max_size", ErrTooLarge, leftOutFactor)
	}
	b.leftOutBytes -= size
	return nil
}

// add subtracts an entry. It returns ErrTooLarge when the limits are exceeded.
func (b *bounds) add(size int64) error {
	b.files--
	if b.files < 0 {
		return fmt.Errorf("%w: it has more files than max_files allows", ErrTooLarge)
	}
	if size < 0 || size > b.bytes {
		return fmt.Errorf("%w: it has more bytes than max_size allows", ErrTooLarge)
	}
	b.bytes -= size
	return nil
}

// packer writes entries of one or two archives to a canonical one. It holds
// about 50 bytes for each entry that it has written, the hash of its path and
// its digest, and nothing for those that it excludes.
type packer struct {
	out     *tar.Writer
	bounds  *bounds
	pattern string
	buf     []byte

	sum     contents
	digests [][sha256.Size]byte
	names   map[nameHash]bool // of the entries written, and whether each is a directory
	tree    ancestors
}

func newPacker(out io.Writer, pattern string, b *bounds) *packer {
	return &packer{
		out: tar.NewWriter(out), bounds: b, pattern: pattern, buf: make([]byte, 128<<10),
		names: map[nameHash]bool{},
	}
}

// maxTrailer bounds what may follow the end mark of an archive.
const maxTrailer = 1 << 20

// addArchive adds the entries of an archive. The function accept may exclude an
// entry. addArchive reads the archive to its end, because only then it is known
// to be complete.
func (p *packer) addArchive(archive io.Reader, accept func(h *tar.Header, name string) error) error {
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return archiveError(err)
		}
		if err := p.entry(h, r, accept); err != nil {
			return err
		}
	}
	n, err := io.CopyBuffer(io.Discard, io.LimitReader(archive, maxTrailer), p.buf)
	if err == nil && n == maxTrailer {
		err = archiveErrorf("more than %d bytes follow its end", maxTrailer)
	}
	return err
}

// archiveError distinguishes a bad archive from a reader that failed.
func archiveError(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return archiveErrorf("%w", err)
	}
	return err
}

// errLeaveOut is returned by accept to exclude an entry.
var errLeaveOut = errors.New("excluded")

func (p *packer) entry(h *tar.Header, content io.Reader, accept func(*tar.Header, string) error) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil || name == "." {
		return err
	}
	if droppedTypes[h.Typeflag] {
		p.sum.Skipped++
		return p.bounds.add(0)
	}
	if !keptTypes[h.Typeflag] {
		return archiveErrorf("%.200q is not a file, directory or symbolic link", name)
	}
	c, err := canonicalHeader(h, name)
	if err != nil {
		return err
	}
	p.tree.advance(name)
	err = accept(c, name)
	if errors.Is(err, errLeaveOut) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.write(c, p.tree.last().hash, content)
}

// fromContainer accepts the entries that a mapping's pattern matches. It
// refuses an entry below something that is not a directory, because unpacking
// it could lead outside.
func (p *packer) fromContainer(h *tar.Header, name string) error {
	if p.belowFile() {
		return archiveErrorf("%.200q is below something that is not a directory", name)
	}
	if matches(p.pattern, name) {
		return p.writeDirs()
	}
	if err := p.bounds.leaveOut(h.Size); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		p.tree.markListed(h)
	}
	return errLeaveOut
}

// writeDirs writes the directories above the entry that the pattern excludes
// and that have not been written, so that they keep their modes.
func (p *packer) writeDirs() error {
	for i, dir := range p.tree.parents() {
		if _, written := p.names[dir.hash]; !dir.listed || written {
			continue
		}
		p.tree.chain[i].listed = false
		if err := p.write(p.tree.header(dir), dir.hash, nil); err != nil {
			return err
		}
	}
	return nil
}

// notInContainer accepts entries of the previous snapshot, for a mapping that
// only adds: those that are not in the container and do not conflict with it.
func (p *packer) notInContainer(*tar.Header, string) error {
	if _, there := p.names[p.tree.last().hash]; there || p.belowFile() {
		return errLeaveOut
	}
	return nil
}

// belowFile reports whether the entry is below something that is not a
// directory.
func (p *packer) belowFile() bool {
	for _, dir := range slices.Backward(p.tree.parents()) {
		if dir, there := p.names[dir.hash]; there {
			return !dir
		}
	}
	return false
}

func (p *packer) write(h *tar.Header, path nameHash, content io.Reader) error {
	if err := p.bounds.add(h.Size); err != nil {
		return err
	}
	p.names[path] = h.Typeflag == tar.TypeDir
	if err := p.out.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %.200q: %w", h.Name, err)
	}
	sum := newEntryHash(h)
	if h.Typeflag == tar.TypeReg {
		n, err := io.CopyBuffer(io.MultiWriter(p.out, sum), content, p.buf)
		if err == nil && n != h.Size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("pack %.200q: %w", h.Name, archiveError(err))
		}
	}
	p.digests = append(p.digests, [sha256.Size]byte(sum.Sum(nil)))
	p.sum.Files++
	p.sum.Bytes += h.Size
	return nil
}

// finish ends the archive. The digest is of the set of entries: the order in
// which a container lists its files does not matter.
func (p *packer) finish() (contents, error) {
	if err := p.out.Close(); err != nil {
		return contents{}, err
	}
	slices.SortFunc(p.digests, func(a, b [sha256.Size]byte) int { return slices.Compare(a[:], b[:]) })
	sum := sha256.New()
	for _, d := range p.digests {
		sum.Write(d[:])
	}
	p.sum.Digest = hex.EncodeToString(sum.Sum(nil))
	return p.sum, nil
}

// isMissing reports whether the directory to pack does not exist, which counts
// as empty.
func isMissing(err error) bool { return errors.Is(err, runtime.ErrFileNotFound) }
