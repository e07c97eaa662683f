package main

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/hostler/hostler/runtime/tree"
	"golang.org/x/sys/unix"
)

// maxListSize bounds the memory for names of one directory that are listed at a
// time, in bytes.
const maxListSize = 3 << 20

// nameRef is a name in a nameList.
type nameRef struct {
	offset uint32
	size   uint8 // a name has at most 255 bytes
}

// refSize is the memory of a nameRef.
const refSize = 8

// nameList has the first names of a directory after a given one, in order: as
// many as fit. The memory does not depend on how many there are.
type nameList struct {
	bytes []byte
	refs  []nameRef
	next  int  // the index of the next one
	isCut bool // more names come after those
}

// size is the memory of the list in bytes.
func (l *nameList) size() int { return len(l.bytes) + refSize*len(l.refs) }

func (l *nameList) name(r nameRef) []byte { return l.bytes[r.offset : r.offset+uint32(r.size)] }

// load reads an open directory from its start.
func (l *nameList) load(dir int, after string, limit int, buf []byte) error {
	*l = nameList{bytes: l.bytes[:0], refs: l.refs[:0]}
	for {
		n, err := unix.Getdents(dir, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n <= 0 {
			break
		}
		if err := l.addAll(buf[:n], after, limit); err != nil {
			return err
		}
	}
	l.sort()
	// A name may be read twice while others are added and removed.
	l.refs = slices.CompactFunc(l.refs, func(a, b nameRef) bool { return bytes.Equal(l.name(a), l.name(b)) })
	return nil
}

// addAll adds the names of directory entries. Some filesystems have names that are
// longer than others can have: they are refused, and not left out silently.
func (l *nameList) addAll(entries []byte, after string, limit int) error {
	for name := range direntNames(entries) {
		if len(name) > tree.MaxName {
			return badArchive("a name is longer than %d bytes: %q...", tree.MaxName, bytes.ToValidUTF8(name[:64], []byte("?")))
		}
		if string(name) > after {
			l.add(name, limit)
		}
	}
	return nil
}

// add adds a name unless it comes after those that fit. A list that is full loses
// its last quarter.
func (l *nameList) add(name []byte, limit int) {
	if l.isCut && bytes.Compare(name, l.name(l.refs[0])) >= 0 {
		return
	}
	l.refs = append(l.refs, nameRef{offset: uint32(len(l.bytes)), size: uint8(len(name))}) //nolint:gosec // the limit bounds both
	l.bytes = append(l.bytes, name...)
	if l.size() <= limit {
		return
	}
	l.sort()
	last, size := 0, 0
	for i, r := range l.refs {
		if size += int(r.size) + refSize; size > limit/4*3 {
			break
		}
		last = i
	}
	l.refs = l.refs[:last+1]
	kept := l.refs[last]
	// The bytes move to the front in the order of their offsets.
	slices.SortFunc(l.refs, func(a, b nameRef) int { return cmp.Compare(a.offset, b.offset) })
	end := uint32(0)
	for i, r := range l.refs {
		copy(l.bytes[end:], l.name(r))
		l.refs[i].offset = end
		if r == kept {
			last = i
		}
		end += uint32(r.size)
	}
	l.bytes, l.isCut = l.bytes[:end], true
	// The greatest one is the first: it is what the next names are compared with.
	l.refs[0], l.refs[last] = l.refs[last], l.refs[0]
}

func (l *nameList) sort() {
	slices.SortFunc(l.refs, func(a, b nameRef) int { return bytes.Compare(l.name(a), l.name(b)) })
}
