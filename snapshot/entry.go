package snapshot

import (
	"archive/tar"
	"fmt"
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

// droppedTypes are the kinds of entries without a meaning outside of their
// container.
var droppedTypes = map[byte]bool{tar.TypeFifo: true, tar.TypeChar: true, tar.TypeBlock: true}

// permissionBits are the mode bits that are kept: not setuid and setgid.
const permissionBits = 0o1777
