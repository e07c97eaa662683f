package fake

import (
	"bytes"
	"time"

	runtimetree "github.com/hostler/hostler/runtime/tree"
)

// hole is a range of a file's zeros that takes no memory. It begins after so many
// bytes of the file's data.
type hole struct {
	after int
	size  int64
}

// size returns the size of a file, holes included.
func (n *node) size() int64 {
	size := int64(len(n.data))
	for _, h := range n.holes {
		size += h.size
	}
	return size
}

// content returns all of a file, which must not be changed.
func (n *node) content() []byte {
	if len(n.holes) == 0 {
		return n.data
	}
	all := make([]byte, 0, n.size())
	at := 0
	for _, h := range n.holes {
		all = append(all, n.data[at:h.after]...)
		all = append(all, make([]byte, h.size)...)
		at = h.after
	}
	return append(all, n.data[at:]...)
}

// truncate cuts a file, or adds a hole at its end.
func (n *node) truncate(size int64) {
	if more := size - n.size(); more >= 0 {
		n.addHole(more)
		return
	}
	n.data, n.holes = bytes.Clone(n.content()[:size]), nil
}

// addHole adds a hole at the end of a file.
func (n *node) addHole(size int64) {
	if size > 0 {
		n.holes = append(n.holes, hole{after: len(n.data), size: size})
	}
}

// touch records that a file has changed, in what no process can set.
func (t *tree) touch(n *node) {
	if n.inode == 0 {
		t.inodes++
		n.inode = t.inodes
	}
	t.clock = max(t.clock+1, time.Now().UnixNano())
	n.changed = t.clock
}

// stamp returns a file's stamp.
func (t *tree) stamp(n *node) runtimetree.Stamp {
	if n.inode == 0 {
		t.touch(n)
	}
	return runtimetree.Stamp{Inode: n.inode, ChangeTime: n.changed}
}
