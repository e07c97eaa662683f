package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
)

// Bounds of a list of snapshots. Who can write the bucket can write any list, and a
// list that is small can need a lot of memory once it is decoded.
const (
	// maxManifestSize bounds the bytes: 100 snapshots (the maximum of keep) of 300
	// mappings, and the marks.
	maxManifestSize = 16 << 20
	// maxElements bounds the elements of all arrays together. Each needs up to 160
	// bytes of memory, and only one byte of the list.
	maxElements = 1 << 17
	// maxDepth is that of the parts' locations, and more.
	maxDepth = 16
	// maxText bounds names, paths and patterns.
	maxText = 4 << 10
	// maxNumber bounds the numbers of a part, so that sums of them do not overflow.
	maxNumber = 1 << 50
)

var errTooManyElements = fmt.Errorf("it has more than %d elements", maxElements)

// readBounded reads a list of snapshots.
func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifestSize+1))
	if err == nil && len(data) > maxManifestSize {
		err = fmt.Errorf("%w: it is larger than %d bytes", ErrCorrupt, maxManifestSize)
	}
	return data, err
}

// checkElements refuses JSON that takes too much memory when it is decoded. It
// accepts what is not JSON.
func checkElements(data []byte) error {
	var within []byte // the arrays and objects around the current byte
	elements, text := 0, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			within = append(within, c)
			elements++
		case c == ',' && len(within) > 0 && within[len(within)-1] == '[':
			elements++
		case (c == ']' || c == '}') && len(within) > 0:
			within = within[:len(within)-1]
		}
		if elements > 2*maxElements {
			return errTooManyElements
		}
		if len(within) > maxDepth {
			return errors.New("it is too deep")
		}
	}
	return nil
}

// snapshotName matches the ids of snapshots. They are parts of keys.
var snapshotName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// check returns an error for a list that nothing writes. Its names become parts of
// keys and of archives.
func (h manifest) check() error {
	if h.Generation < 1 || h.Generation >= maxGeneration {
		return fmt.Errorf("it has the generation %d", h.Generation)
	}
	for _, s := range h.Snapshots {
		if !snapshotName.MatchString(s.ID) {
			return fmt.Errorf("it has a snapshot with the id %.70q", s.ID)
		}
		for _, p := range s.Parts {
			if err := p.check(); err != nil {
				return fmt.Errorf("snapshot %s: %w", s.ID, err)
			}
		}
	}
	return nil
}

// maxGeneration has one digit more than the name of a list.
const maxGeneration = 1e16

// check returns an error for a part that nothing writes.
func (p Part) check() error {
	for _, n := range []int64{int64(p.Files), p.Bytes, p.Stored, p.New, p.Index.PackSize} {
		if n < 0 || n > maxNumber {
			return fmt.Errorf("it has the number %d", n)
		}
	}
	if len(p.SinkPath) > maxText || len(p.Pattern) > maxText {
		return fmt.Errorf("a part has a sink path of %d bytes and a pattern of %d", len(p.SinkPath), len(p.Pattern))
	}
	if path.Clean("/"+p.Path) != cmp.Or(p.Path, "/") || len(p.Path) > maxText || strings.ContainsRune(p.Path, 0) {
		return fmt.Errorf("a part has the path %.200q", p.Path)
	}
	return nil
}
