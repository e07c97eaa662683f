package fake

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// rename renames a file or a directory.
func rename(p *Proc, args []string) error {
	return p.change(func(t *tree, u *User) error {
		return t.rename(p.abs(args[0]), p.abs(args[1]), u)
	})
}

func (t *tree) rename(from, to string, u *User) error {
	old, err := t.lookupExisting(from, false, u)
	if err == nil {
		err = t.checkEntry(old, u)
	}
	if err != nil {
		return err
	}
	p, err := t.lookup(to, false, u)
	if err != nil {
		return err
	}
	if p.node != nil && p.node.mode.IsDir() {
		return &fs.PathError{Op: "rename", Path: to, Err: syscall.EEXIST}
	}
	moved := old.node
	if err := t.checkEntry(p, u); err != nil {
		return &fs.PathError{Op: "rename", Path: to, Err: err}
	}
	delete(old.parent.children, old.name)
	p.parent.children[p.name] = moved
	t.touch(moved)
	t.countChange(old)
	t.countChange(p)
	return nil
}

// exchange exchanges two names. It does so once: nothing runs concurrently.
func exchange(p *Proc, args []string) error {
	aside := args[0] + ".aside"
	for _, names := range [][]string{{args[0], aside}, {args[1], args[0]}, {aside, args[1]}} {
		if err := rename(p, names); err != nil {
			return err
		}
	}
	return nil
}

// truncate sets a file's size.
func truncate(p *Proc, args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	return p.change(func(t *tree, u *User) error {
		at, err := t.lookupExisting(p.abs(args[0]), true, u)
		if err == nil {
			err = t.checkOverwritable(at, u)
		}
		if err != nil {
			return err
		}
		at.node.truncate(size)
		at.node.modified = time.Now()
		t.touch(at.node)
		t.countChange(at)
		return nil
	})
}

// sparse creates a file that has a text at its beginning and its end, and a hole
// between them.
func sparse(p *Proc, args []string) error {
	if err := p.WriteFile(args[0], []byte(args[2])); err != nil {
		return err
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	text := int64(len(args[2]))
	if err := truncate(p, []string{args[0], strconv.FormatInt(size-text, 10)}); err != nil {
		return err
	}
	return p.change(func(t *tree, u *User) error {
		at, err := t.lookupExisting(p.abs(args[0]), true, u)
		if err == nil {
			at.node.data = append(at.node.data, args[2]...)
			t.touch(at.node)
		}
		return err
	})
}

// ends prints the beginning and the end of a file.
func ends(p *Proc, args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	var data []byte
	err = p.change(func(t *tree, u *User) error {
		at, err := t.lookupExisting(p.abs(args[0]), true, u)
		if err == nil {
			data = at.node.data // as if the ends were no holes
		}
		return err
	})
	if err != nil {
		return err
	}
	n := min(int(size), len(data))
	_, err = fmt.Fprintf(p.Stdout, "%s%s", data[:n], data[len(data)-n:])
	return err
}

// treeLine is a line of walkTree.
const treeLine = "%+q %s %o %d %d %d %d %+q %d\n"

// walkTree prints what is below a directory.
func walkTree(p *Proc, args []string) error {
	var lines []string
	err := p.change(func(t *tree, u *User) error {
		at, err := t.lookupExisting(p.abs(args[0]), true, u)
		if err == nil {
			lines = at.node.describe("", lines)
		}
		return err
	})
	for _, line := range lines {
		if _, err := p.Stdout.Write([]byte(line)); err != nil {
			return err
		}
	}
	return err
}

func (n *node) describe(prefix string, lines []string) []string {
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[name]
		full := path.Join(prefix, name)
		kind, mode := "file", child.mode.Perm()
		if child.mode.IsDir() {
			kind = "dir"
		}
		if child.mode&fs.ModeSymlink != 0 {
			kind = "link"
		}
		if child.mode&fs.ModeSticky != 0 {
			mode |= stickyBit
		}
		size := child.size()
		lines = append(lines, fmt.Sprintf(treeLine, full, kind, mode, child.uid, child.gid, size,
			child.modified.UnixNano(), child.target, len(child.data)))
		lines = child.describe(full, lines)
	}
	return lines
}
