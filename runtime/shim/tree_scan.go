package shim

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// ScanTree implements tree.Trees.ScanTree.
func (s *Session) ScanTree(ctx context.Context, dir string, o tree.ScanOptions) (tree.Scan, error) {
	t, err := s.startTransfer(ctx, "scan", Request{Op: OpScan, Paths: []string{dir}, Live: o.Live, Streams: 1})
	if err != nil {
		return nil, err
	}
	a := &archive{transfer: t}
	// Even an empty tree has an end mark, see CopyOut.
	if err := a.waitReadable(); err != nil {
		err = a.endError(err)
		a.abort()
		return nil, err
	}
	return &treeScan{archive: a, reader: tree.NewScanReader(scanStream{a})}, nil
}

// scanStream is the stream of a scan, with a timeout for each wait for the program.
type scanStream struct{ *archive }

func (s scanStream) Write(p []byte) (int, error) {
	if s.readErr != nil {
		return 0, s.readErr
	}
	if err := s.write(p); err != nil {
		s.readErr = s.endError(err)
		return 0, s.readErr
	}
	return len(p), nil
}

// treeScan is a tree.Scan of a container.
type treeScan struct {
	archive *archive
	reader  *tree.ScanReader
}

// Next implements tree.Scan.
func (s *treeScan) Next() ([]tree.Entry, error) {
	batch, err := s.reader.Next()
	return batch, treeError(err)
}

// Read implements tree.Scan.
func (s *treeScan) Read(indexes []int, each func(int, tree.Entry, tree.Content) error) error {
	return treeError(s.reader.Read(indexes, each))
}

// Close implements tree.Scan. It discards what was not read.
func (s *treeScan) Close() error { return s.archive.Close() }

// treeError returns the error of the contract for what a program has sent: it may be
// under control of the tenant.
func treeError(err error) error {
	if errors.Is(err, tree.ErrMalformed) && !errors.Is(err, runtime.ErrBadArchive) {
		return fmt.Errorf("%w: %w", runtime.ErrBadArchive, err)
	}
	return err
}
