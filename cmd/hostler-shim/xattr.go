package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// xattr is an extended attribute of a file. Access control lists are extended
// attributes.
type xattr struct{ name, value string }

// pathXattrs returns the attributes of a path without following a link.
func pathXattrs(path string) ([]xattr, error) {
	return readXattrs(path,
		func(buf []byte) (int, error) { return unix.Llistxattr(path, buf) },
		func(name string, buf []byte) (int, error) { return unix.Lgetxattr(path, name, buf) })
}

// fileXattrs returns the attributes of an open file.
func fileXattrs(fd int) ([]xattr, error) {
	return readXattrs("a directory",
		func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) },
		func(name string, buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
}

// readXattrs reads all names and values, sorted by name. If a value cannot be
// read, it contains the error.
func readXattrs(what string, list func([]byte) (int, error), get func(string, []byte) (int, error)) ([]xattr, error) {
	// Most files have none, and a query for the size needs no buffer.
	if n, err := list(nil); n == 0 && err == nil || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	buf := make([]byte, maxXattrSize)
	n, err := list(buf)
	if err != nil {
		return nil, fmt.Errorf("list the attributes of %s: %w", what, err)
	}
	names := strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00")
	all := make([]xattr, 0, len(names))
	for _, name := range names {
		a := xattr{name: name}
		if n, err := get(name, buf); err != nil {
			a.value = "!" + err.Error()
		} else {
			a.value = "=" + string(buf[:n])
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b xattr) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// restoreXattrs restores the attributes of an open file.
func restoreXattrs(fd int, had []xattr) error {
	has, err := fileXattrs(fd)
	if err != nil || slices.Equal(has, had) {
		return err
	}
	for _, a := range has {
		if !slices.Contains(had, a) {
			if err := unix.Fremovexattr(fd, a.name); err != nil {
				return fmt.Errorf("remove the attribute %q: %w", a.name, err)
			}
		}
	}
	for _, a := range had {
		if value, ok := strings.CutPrefix(a.value, "="); ok && !slices.Contains(has, a) {
			if err := unix.Fsetxattr(fd, a.name, []byte(value), 0); err != nil {
				return fmt.Errorf("restore the attribute %q: %w", a.name, err)
			}
		}
	}
	return nil
}
