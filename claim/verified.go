package claim

import (
	"context"
	"errors"
	"io"

	"github.com/hostler/hostler/runtime/tree"
)

// verifiedTrees verifies, when a tree was listed to its end, that the list is
// valid: the container may have been wiped and assigned to another tenant in the
// meantime.
type verifiedTrees struct {
	tree.Trees
	verify func() error
}

// ScanTree implements tree.Trees.
func (v verifiedTrees) ScanTree(ctx context.Context, id, dir string, o tree.ScanOptions) (tree.Scan, error) {
	s, err := v.Trees.ScanTree(ctx, id, dir, o)
	if err != nil {
		if verifyErr := v.verify(); verifyErr != nil {
			return nil, errors.Join(verifyErr, err)
		}
		return nil, asReadError(err)
	}
	return &verifiedScan{s, v.verify}, nil
}

type verifiedScan struct {
	tree.Scan
	verify func() error
}

// Next implements tree.Scan.
func (s *verifiedScan) Next() ([]tree.Entry, error) {
	entries, err := s.Scan.Next()
	if errors.Is(err, io.EOF) {
		if verifyErr := s.verify(); verifyErr != nil {
			return nil, verifyErr
		}
	}
	return entries, asReadError(err)
}

// Read implements tree.Scan. An error of each is the server's, and is returned as
// it is.
func (s *verifiedScan) Read(indexes []int, each func(int, tree.Entry, tree.Content) error) error {
	var own error
	err := s.Scan.Read(indexes, func(i int, as tree.Entry, content tree.Content) error {
		read := &verifiedContent{Content: content}
		err := each(i, as, read)
		if err != nil && !errors.Is(err, read.err) {
			own = err
		}
		return err
	})
	if own != nil {
		return err
	}
	return asReadError(err)
}

// verifiedContent keeps the error of a container.
type verifiedContent struct {
	tree.Content
	err error
}

// Next implements tree.Content.
func (c *verifiedContent) Next() ([]byte, int64, error) {
	data, hole, err := c.Content.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return data, hole, err
}
