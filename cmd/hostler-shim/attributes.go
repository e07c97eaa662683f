package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// attribute is an extended attribute of a file. Access control lists are
// extended attributes.
type attribute struct{ name, value string }

// attributesOf lists those of what a path names itself.
func attributesOf(path string) ([]attribute, error) {
	return readAttributes(path,
		func(buf []byte) (int, error) { return unix.Llistxattr(path, buf) },
		func(name string, buf []byte) (int, error) { return unix.Lgetxattr(path, name, buf) })
}

// attributesOfFile lists those of an open file.
func attributesOfFile(fd int) ([]attribute, error) {
	return readAttributes("a directory",
		func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) },
		func(name string, buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
}

// readAttributes reads all names and values, in the order of the names. What
// cannot be read has the error as its value.
func readAttributes(what string, list func([]byte) (int, error), get func(string, []byte) (int, error)) ([]attribute, error) {
	// Most files have none, and asking for the size costs no buffer.
	if n, err := list(nil); n == 0 && err == nil || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	buf := make([]byte, maxAttributes)
	n, err := list(buf)
	if err != nil {
		return nil, fmt.Errorf("list the attributes of %s: %w", what, err)
	}
	names := strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00")
	all := make([]attribute, 0, len(names))
	for _, name := range names {
		a := attribute{name: name}
		if n, err := get(name, buf); err != nil {
			a.value = "!" + err.Error()
		} else {
			a.value = "=" + string(buf[:n])
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b attribute) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// restoreAttributes gives an open file the attributes that it had.
func restoreAttributes(fd int, had []attribute) error {
	has, err := attributesOfFile(fd)
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
