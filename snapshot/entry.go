package snapshot

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"path"
	"strings"

	"github.com/hostler/hostler/runtime"
)

func archiveErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{runtime.ErrBadArchive}, args...)...)
}

// Bounds of one entry, which are the kernel's. Deeper directories can be made
// one in the other, but nothing in them can be opened by its path.
const (
	maxPath       = 4 << 10
	maxComponent  = 255
	maxLinkTarget = 4 << 10
)

// cleanName is an entry's name without what says nothing: "." for the folder
// itself. Names that lead outside, or that could be read as such, are refused.
func cleanName(name string) (string, error) {
	if len(name) > maxPath {
		return "", archiveErrorf("the path %.200q… is longer than %d bytes", name, maxPath)
	}
	if name == "" || strings.ContainsRune(name, 0) || path.IsAbs(name) {
		return "", archiveErrorf("the name %.200q is not one of a file below", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", archiveErrorf("the name %.200q points upwards", name)
		}
		if len(part) > maxComponent {
			return "", archiveErrorf("the name %.200q has a part that is longer than %d bytes", name, maxComponent)
		}
	}
	return path.Clean(name), nil
}

// keptTypes are the kinds of entries that are kept; dropped are those that mean
// nothing outside of their container. Any other, a hard link above all, would
// be a file that is lost: it is refused.
var (
	keptTypes    = map[byte]bool{tar.TypeReg: true, tar.TypeDir: true, tar.TypeSymlink: true}
	droppedTypes = map[byte]bool{tar.TypeFifo: true, tar.TypeChar: true, tar.TypeBlock: true}
)

// permissionBits are those that are kept: not setuid and setgid.
const permissionBits = 0o1777

// canonicalHeader is an entry without what belongs to one container: owners, times of
// access and change, anything that we do not know.
func canonicalHeader(h *tar.Header, name string) (*tar.Header, error) {
	c := &tar.Header{
		Typeflag: h.Typeflag, Name: name, Mode: h.Mode & permissionBits,
		ModTime: h.ModTime, Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeDir:
		c.Name += "/"
	case tar.TypeReg:
		c.Size = h.Size
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxLinkTarget || strings.ContainsRune(h.Linkname, 0) {
			return nil, archiveErrorf("the link %.200q has no target that can be", name)
		}
		c.Linkname = h.Linkname
	}
	return c, nil
}

// newEntryHash begins the hash of an entry with what its header says; its
// content follows. Not in it are the times of folders and links: those of a
// folder change with what is in it, and neither says what there is.
func newEntryHash(h *tar.Header) hash.Hash {
	sum := sha256.New()
	var n [8]byte
	number := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v)) //nolint:gosec // any bits do
		sum.Write(n[:])
	}
	text := func(s string) {
		number(int64(len(s)))
		sum.Write([]byte(s))
	}
	sum.Write([]byte{h.Typeflag})
	text(h.Name)
	text(h.Linkname)
	number(h.Mode)
	if h.Typeflag == tar.TypeReg {
		number(h.Size)
		number(h.ModTime.UnixNano())
	}
	return sum
}
