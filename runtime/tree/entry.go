package tree

import (
	"encoding/binary"
	"math"
	"path"
	"strings"
	"time"
)

// maxEntrySize bounds an encoded entry: its path, its target and its numbers.
const maxEntrySize = MaxPath + MaxTarget + entryOverhead

// entryOverhead bounds the numbers of an encoded entry. It is also what an entry
// counts in a batch in addition to its names.
const entryOverhead = 96

// modeBits are the bits of a mode that an entry has.
const modeBits = 0o1777

// The range of a modification time, in seconds: the years 1 to 9999.
const (
	minSecond = -62135596800
	maxSecond = 253402300799
)

// ClampTime returns the closest time that an entry may have. A filesystem may have
// others.
func ClampTime(seconds, nano int64) time.Time {
	switch {
	case seconds < minSecond:
		return time.Unix(minSecond, 0)
	case seconds > maxSecond:
		return time.Unix(maxSecond, 0)
	}
	return time.Unix(seconds, min(max(nano, 0), 1e9-1))
}

// size is what an entry counts in a batch.
func (e *Entry) size() int { return len(e.Path) + len(e.Target) + entryOverhead }

// Check returns an error for an entry that cannot be sent.
func (e *Entry) Check() error {
	if !isPath(e.Path) {
		return malformed("path %.100q", e.Path)
	}
	return e.checkAttributes()
}

func (e *Entry) checkAttributes() error {
	isLink := e.Kind == Link
	switch {
	case e.Kind != File && e.Kind != Dir && !isLink:
		return malformed("kind %q of %.100q", byte(e.Kind), e.Path)
	case e.Mode&^modeBits != 0 || isLink && e.Mode != 0:
		return malformed("mode %o of %.100q", e.Mode, e.Path)
	case !isID(e.Owner) || !isID(e.Group):
		return malformed("owner %d:%d of %.100q", e.Owner, e.Group, e.Path)
	case e.Size < 0 || e.Size > 0 && e.Kind != File:
		return malformed("size %d of %.100q", e.Size, e.Path)
	case e.ModTime.Unix() < minSecond || e.ModTime.Unix() > maxSecond:
		return malformed("modification time of %.100q", e.Path)
	case isLink != (e.Target != "") || len(e.Target) > MaxTarget || strings.IndexByte(e.Target, 0) >= 0:
		return malformed("target %.100q of %.100q", e.Target, e.Path)
	}
	return nil
}

func isID(id int64) bool { return id >= -1 && id < math.MaxUint32 }

// isPath reports whether p is a relative, clean path without "..".
func isPath(p string) bool {
	if len(p) == 0 || len(p) > MaxPath || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." || name == ".." || len(name) > MaxName {
			return false
		}
	}
	return true
}

// order checks the order of the entries.
type order struct {
	path string
	kind Kind
}

// follow returns an error unless the path comes after those before. Nothing is below
// a file or a link.
func (o *order) follow(p string, kind Kind) error {
	if o.path != "" && Compare(o.path, p) >= 0 {
		return malformed("%.100q after %.100q", p, o.path)
	}
	if (o.kind == File || o.kind == Link) && isBelow(p, o.path) {
		return malformed("%.100q below what is no directory", p)
	}
	o.path, o.kind = p, kind
	return nil
}

// followParent is follow for a complete tree: the directory of each entry is in it.
func (o *order) followParent(p string, kind Kind) error {
	if dir := path.Dir(p); dir != "." && !isBelow(o.path, dir) && (o.path != dir || o.kind != Dir) {
		return malformed("%.100q without its directory", p)
	}
	return o.follow(p, kind)
}

func isBelow(p, dir string) bool {
	return len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// appendEntry encodes an entry. The path before it shortens its own.
func appendEntry(b []byte, before string, e *Entry) []byte {
	shared := 0
	for shared < min(len(before), len(e.Path)) && before[shared] == e.Path[shared] {
		shared++
	}
	b = append(b, byte(e.Kind))
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(e.Path)-shared))
	b = append(b, e.Path[shared:]...)
	return appendAttributes(b, e)
}

func appendAttributes(b []byte, e *Entry) []byte {
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendUvarint(b, uint64(e.Owner+1))
	b = binary.AppendUvarint(b, uint64(e.Group+1))
	b = binary.AppendVarint(b, e.ModTime.Unix())
	b = binary.AppendUvarint(b, uint64(e.ModTime.Nanosecond()))
	switch e.Kind {
	case File:
		b = binary.AppendUvarint(b, uint64(e.Size))
		b = appendStamp(b, e.Stamp)
	case Link:
		b = binary.AppendUvarint(b, uint64(len(e.Target)))
		b = append(b, e.Target...)
	}
	return b
}

func appendStamp(b []byte, s Stamp) []byte {
	return binary.AppendVarint(binary.AppendUvarint(b, s.Inode), s.ChangeTime)
}

// fields are the encoded fields of a message.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) byte() byte {
	if len(f.b) == 0 {
		f.bad = true
		return 0
	}
	b := f.b[0]
	f.b = f.b[1:]
	return b
}

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) bytes(n uint64) []byte {
	if n > uint64(len(f.b)) {
		f.bad, f.b = true, nil
		return nil
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

// entry decodes an entry after the path before.
func (f *fields) entry(before string) (e Entry, err error) {
	e.Kind = Kind(f.byte())
	shared := f.uvarint()
	suffix := f.bytes(f.uvarint())
	if f.bad || shared > uint64(len(before)) || shared+uint64(len(suffix)) > MaxPath {
		return e, malformed("an entry")
	}
	p := make([]byte, 0, MaxPath)[:0]
	p = append(p, before[:shared]...)
	e.Path = string(append(p, suffix...))
	if err := f.attributes(&e); err != nil {
		return e, err
	}
	if !isPath(e.Path) {
		return e, malformed("path %.100q", e.Path)
	}
	return e, nil
}

// attributes decodes all of an entry but its path.
func (f *fields) attributes(e *Entry) error {
	mode := f.uvarint()
	owner, group := f.uvarint(), f.uvarint()
	seconds, nano := f.varint(), f.uvarint()
	if f.bad || mode > modeBits || owner > math.MaxUint32 || group > math.MaxUint32 || nano >= 1e9 {
		return malformed("attributes of %.100q", e.Path)
	}
	e.Mode, e.Owner, e.Group = uint32(mode), int64(owner)-1, int64(group)-1
	e.ModTime = time.Unix(seconds, int64(nano))
	switch e.Kind {
	case File:
		size := f.uvarint()
		if size > math.MaxInt64 {
			f.bad = true
		}
		e.Size, e.Stamp = int64(size), f.stamp()
	case Link:
		e.Target = string(f.bytes(f.uvarint()))
	}
	if f.bad {
		return malformed("attributes of %.100q", e.Path)
	}
	return e.checkAttributes()
}

func (f *fields) stamp() Stamp { return Stamp{Inode: f.uvarint(), ChangeTime: f.varint()} }
