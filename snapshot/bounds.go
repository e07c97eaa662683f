package snapshot

import (
	"fmt"
	"math"

	"github.com/hostler/hostler/runtime/tree"
)

// bounds are the remaining limits of a state.
type bounds struct {
	bytes int64
	files int
	// What a pattern excludes is listed too.
	leftOutBytes int64
	leftOutFiles int
}

// leftOutFactor is how many times the limits of a state its pattern may
// exclude. A sparse file can be of any size.
const leftOutFactor = 10

func newBounds(bytes int64, files int) bounds {
	return bounds{
		bytes: bytes, files: files,
		leftOutBytes: min(bytes, math.MaxInt64/leftOutFactor) * leftOutFactor,
		leftOutFiles: min(files, math.MaxInt/leftOutFactor) * leftOutFactor,
	}
}

// leaveOut subtracts an entry that the pattern excludes.
func (b *bounds) leaveOut(size int64) error {
	b.leftOutFiles--
	if b.leftOutFiles < 0 || size < 0 || size > b.leftOutBytes {
		return fmt.Errorf("%w: the files that its pattern excludes exceed %d times max_files or max_size", ErrTooLarge, leftOutFactor)
	}
	b.leftOutBytes -= size
	return nil
}

// add subtracts an entry. The target of a link is content: a state of links could
// otherwise have 4 KiB times max_files. It returns ErrTooLarge when the limits are
// exceeded.
func (b *bounds) add(e *tree.Entry) error {
	size := e.Size
	if e.Kind == tree.Link {
		size = int64(len(e.Target))
	}
	b.files--
	if b.files < 0 {
		return fmt.Errorf("%w: it has more files than max_files allows", ErrTooLarge)
	}
	if size < 0 || size > b.bytes {
		return fmt.Errorf("%w: it has more bytes than max_size allows", ErrTooLarge)
	}
	b.bytes -= size
	return nil
}
