package snapshot

import (
	"github.com/hostler/hostler/runtime/tree"
)

// paceOfFile is what a file that is read counts in addition to its content: to open a
// small one takes as long as to read a large one for a while.
const paceOfFile = 3 * paceOfEntry

// pacedScan is a scan whose waits for the container are bounded.
type pacedScan struct {
	tree.Scan
	*pace
}

// Next implements tree.Scan.
func (s pacedScan) Next() ([]tree.Entry, error) {
	s.beginWait()
	entries, err := s.Scan.Next()
	if cut := s.endWait(paceOfEntry * len(entries)); cut != nil {
		return nil, cut
	}
	return entries, err
}

// Read implements tree.Scan.
func (s pacedScan) Read(indexes []int, each func(int, tree.Entry, tree.Content) error) error {
	s.beginWait()
	err := s.Scan.Read(indexes, func(index int, as tree.Entry, content tree.Content) error {
		if cut := s.endWait(paceOfFile); cut != nil {
			return cut
		}
		err := each(index, as, pacedContent{content, s.pace})
		s.beginWait()
		return err
	})
	if cut := s.endWait(0); cut != nil {
		return cut
	}
	return err
}

// pacedContent is the content of a file of a pacedScan.
type pacedContent struct {
	tree.Content
	*pace
}

// Next implements tree.Content.
func (c pacedContent) Next() ([]byte, int64, error) {
	c.beginWait()
	data, hole, err := c.Content.Next()
	// Extents are not entries, of which there is a limit: of one byte each they would
	// be progress for as long as the container likes.
	if cut := c.endWait(len(data) + int(min(hole, paceOfEntry))); cut != nil {
		return nil, 0, cut
	}
	return data, hole, err
}
