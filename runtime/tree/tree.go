// Package tree defines how directory trees move between containers and the
// server, file by file: the entries, their order, and the messages. A whole
// archive moves everything; a tree moves only what its receiver asks for.
//
// Package runtime has the contract, Files.ScanTree and Files.FillTree. The
// messages are those between the server and the program in a container:
// ScanWriter sends to ScanReader, and Sender to Receiver. Either end treats what
// the other one sends as untrusted: it checks sizes, names and order, and holds
// one batch of entries.
package tree

import (
	"context"
	"time"
)

// Kind is the kind of an entry. Nothing else is moved.
type Kind byte

// The kinds.
const (
	File Kind = 'f'
	Dir  Kind = 'd'
	Link Kind = 'l' // symbolic
)

// Entry is a file, directory or symbolic link below a directory.
type Entry struct {
	// Path is relative to the directory, slash-separated and clean. It is never ".".
	Path string
	Kind Kind
	Mode uint32 // permission bits and the sticky bit, 0 for links
	// Owner and Group are numeric ids. OwnUser and OwnGroup mean that of the
	// container's user, whatever it is in the container that gets the entry.
	Owner, Group int64
	Size         int64 // of a file, including holes
	ModTime      time.Time
	Target       string // of a link
	// Stamp identifies the content of a file in this container. It is the zero
	// value when a change could leave it as it is.
	Stamp Stamp
}

// OwnUser and OwnGroup are an Entry's owner and group when they are those of the
// container's user.
const (
	OwnUser  int64 = -1
	OwnGroup int64 = -1
)

// Stamp changes whenever a file's content changes, by what no process without
// the privilege to set the clock can choose, unless it exchanges the blocks of its
// files. The kernel sets both. Two files of
// one container never have the same Stamp at different times, except the zero
// value, which says nothing. The Stamp of a file that was just written does not
// change if another process changes the file in the same step of the clock. Then
// the modification time does, so compare both.
type Stamp struct {
	Inode      uint64
	ChangeTime int64 // nanoseconds since 1970
}

// IsZero reports whether the stamp says nothing: the file has to be read.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// Scan lists a tree, and reads the files that its caller asks for. It is used by
// one goroutine.
type Scan interface {
	// Next returns the next entries, in the order of Compare, a directory before
	// what it contains. It returns io.EOF after the last one: only then is the
	// list known to be complete. The slice is valid until the next call.
	Next() ([]Entry, error)
	// Read reads files of the last result of Next, given by their indexes in
	// ascending order, and calls each in that order. It may be called once after
	// each Next. The entry is the file as it was opened, which can differ from the
	// list. A file that has gone, or is no longer a file, is left out: each is
	// not called for it. A file that grows is cut at the entry's size, one that
	// shrinks is filled up with zeros. What each does not read is skipped.
	Read(indexes []int, each func(index int, as Entry, content Content) error) error
	// Close ends the scan, also before its end. It may be called again.
	Close() error
}

// Content is the content of a file: extents that add up to its size.
type Content interface {
	// Next returns the next extent: data, or a hole of that many zeros. Data is
	// valid until the next call. It returns io.EOF after the last one.
	Next() (data []byte, hole int64, err error)
}

// ScanOptions are the options of a scan.
type ScanOptions struct {
	// Live means that processes may be running that have files mapped into their
	// memory. A file is then written back before it is read, because a page that
	// is already dirty changes without a new ChangeTime.
	Live bool
}

// Writer writes a tree into a directory. What it creates belongs to the entry's
// owner if the program may do that, else to the container's user. An entry
// replaces what has its name; only a directory keeps its contents when it is
// replaced by a directory. It is used by one goroutine.
type Writer interface {
	// Create begins an entry. The paths of Create and Remove ascend in the order
	// of Compare. A missing parent is created.
	Create(Entry) error
	// Write and Hole add to the content of the file of the last Create. The whole
	// must be its size.
	Write(data []byte) error
	Hole(size int64) error
	// Remove removes what has this name, and everything below. It is nil when
	// there is nothing.
	Remove(path string) error
	// Close finishes the tree: it returns nil only if all of it is written. Then
	// the stamps are those of the files in the order of their Create, each after
	// its last change. Each gets them as they become known, from another
	// goroutine, but not after Close has returned.
	Close() error
	// Abort ends it, unless it has ended. What is written stays.
	Abort(cause error)
}

// Trees is the part of the runtime contract that moves trees; runtime.Files has
// it.
type Trees interface {
	// ScanTree begins to list what is below dir. A missing dir is
	// runtime.ErrFileNotFound.
	ScanTree(ctx context.Context, id, dir string, o ScanOptions) (Scan, error)
	// FillTree begins to write into dir, which must exist and be writable. It
	// fails if the container has received a greater fence. The function stamped,
	// if set, is called with the stamps of written files, in their order.
	FillTree(ctx context.Context, id, dir string, fence int64, stamped func([]Stamp)) (Writer, error)
}

// Compare orders paths as a depth-first walk does that sorts the names in each
// directory by their bytes: a directory comes right before what it contains.
func Compare(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		case a[i] < b[i]:
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
