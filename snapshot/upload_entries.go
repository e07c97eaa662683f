package snapshot

import (
	"path"
	"strings"

	"github.com/hostler/hostler/runtime/tree"
)

// ancestors has the directories above the last entry of a tree. It holds one
// path, however deep the tree is.
type ancestors struct {
	name string
	dirs []ancestor
}

// ancestor is a directory of which more may come.
type ancestor struct {
	end     int        // of its path in the name of the last entry
	entry   tree.Entry // without a path
	written bool       // it is in the snapshot
}

// advance makes an entry the last one, and reports whether the directory that it
// is in was listed.
func (a *ancestors) advance(e tree.Entry, written bool) bool {
	a.descend(e.Path)
	parent := path.Dir(e.Path)
	above := len(a.dirs) > 0 && a.dirs[len(a.dirs)-1].end == len(parent) || len(a.dirs) == 0 && parent == "."
	if above && e.Kind == tree.Dir {
		d := ancestor{end: len(e.Path), entry: e, written: written}
		d.entry.Path = ""
		a.dirs = append(a.dirs, d)
	}
	a.name = e.Path
	return above
}

// descend leaves the directories that the next entry is not in.
func (a *ancestors) descend(name string) {
	for n := len(a.dirs); n > 0; n-- {
		if end := a.dirs[n-1].end; isInside(name, a.name[:end]) {
			break
		}
		a.dirs = a.dirs[:n-1]
	}
}

// isInside reports whether a path is below another.
func isInside(name, dir string) bool {
	return len(name) > len(dir) && name[len(dir)] == '/' && name[:len(dir)] == dir
}

// entryCheck refuses what no directory has, and what could lead outside when it
// is written again. It is used for one tree, in order.
type entryCheck struct {
	above ancestors
}

// maxOwner is the largest id of a user or a group.
const maxOwner = 1<<32 - 1

func (c *entryCheck) check(e tree.Entry) error {
	name, err := cleanName(e.Path)
	if err != nil {
		return err
	}
	switch {
	case name != e.Path || name == ".":
		return archiveErrorf("the path %.200q is not clean", e.Path)
	case e.Kind != tree.File && e.Kind != tree.Dir && e.Kind != tree.Link:
		return archiveErrorf("%.200q is not a file, directory or symbolic link", e.Path)
	case e.Size < 0 || e.Kind != tree.File && e.Size != 0 || e.Mode&^permissionBits != 0:
		return archiveErrorf("%.200q has an invalid size or mode", e.Path)
	case e.Owner < tree.OwnUser || e.Owner > maxOwner || e.Group < tree.OwnGroup || e.Group > maxOwner:
		return archiveErrorf("%.200q has an invalid owner", e.Path)
	case e.Kind == tree.Link && (e.Target == "" || len(e.Target) > maxLinkTarget || strings.ContainsRune(e.Target, 0)):
		return archiveErrorf("the link %.200q has an invalid target", e.Path)
	case c.above.name != "" && tree.Compare(c.above.name, e.Path) >= 0:
		return archiveErrorf("%.200q follows %.200q", e.Path, c.above.name)
	case !c.above.advance(e, false):
		return archiveErrorf("%.200q is below something that is not a directory", e.Path)
	}
	return nil
}

// checkOpened refuses a file that is not the listed one, as it was opened.
func checkOpened(listed, as tree.Entry) error {
	if as.Path != listed.Path || as.Kind != tree.File {
		return archiveErrorf("%.200q was opened instead of %.200q", as.Path, listed.Path)
	}
	alone := entryCheck{}
	as.Path = "f"
	return alone.check(as)
}
