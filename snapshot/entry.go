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

// Limits of one entry, which are the kernel's. Deeper directories can be
// created one within the other, but their files cannot be opened by path.
const (
	maxPath       = 4 << 10
	maxComponent  = 255
	maxLinkTarget = 4 << 10
)

// cleanName returns an entry's name in canonical form: "." for the directory
// itself. It refuses names that lead outside, or that could be interpreted so.
func cleanName(name string) (string, error) {
	if len(name) > maxPath {
		return "", archiveErrorf("the path %.200q… is longer than %d bytes", name, maxPath)
	}
	if name == "" || strings.ContainsRune(name, 0) || path.IsAbs(name) {
		return "", archiveErrorf("the name %.200q is not a relative path", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", archiveErrorf("the name %.200q has a .. component", name)
		}
		if len(part) > maxComponent {
			return "", archiveErrorf("the name %.200q has a component longer than %d bytes", name, maxComponent)
		}
	}
	return path.Clean(name), nil
}

// keptTypes are the kinds of entries that are kept. droppedTypes are those
// without a meaning outside of their container. Any other kind, above all a
// hard link, is refused, because dropping it would lose a file.
var (
	keptTypes    = map[byte]bool{tar.TypeReg: true, tar.TypeDir: true, tar.TypeSymlink: true}
	droppedTypes = map[byte]bool{tar.TypeFifo: true, tar.TypeChar: true, tar.TypeBlock: true}
)

// permissionBits are the mode bits that are kept: not setuid and setgid.
const permissionBits = 0o1777

// canonicalHeader returns an entry without what is specific to one container:
// owners, times of access and change, and unknown fields.
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
			return nil, archiveErrorf("the link %.200q has an invalid target", name)
		}
		c.Linkname = h.Linkname
	}
	return c, nil
}

// newEntryHash returns the hash of an entry's header, to which its content is
// added. It excludes the times of directories and links: a directory's times
// change with its contents, and neither describes the state.
func newEntryHash(h *tar.Header) hash.Hash {
	sum := sha256.New()
	var n [8]byte
	number := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v)) //nolint:gosec // only the bits matter
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
