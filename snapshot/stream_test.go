package snapshot_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"
)

// start is the time of the objects that tests create.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// errTruncated is the error of a truncated stream.
var errTruncated = errors.New("cut off")

// fixedArchive is a container that returns the same archive for every
// directory.
type fixedArchive struct {
	data []byte
	end  error // in place of io.EOF
}

func stream(data []byte) *fixedArchive { return &fixedArchive{data, io.EOF} }

// truncate ends the archive early, with an error.
func (s *fixedArchive) truncate(n int) *fixedArchive { return &fixedArchive{s.data[:n], errTruncated} }

func (s *fixedArchive) CopyOut(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(s.data), failingContainer{s.end})), nil
}

func (s *fixedArchive) CopyIn(_ context.Context, _, _ string, _ int64, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

type failingContainer struct{ err error }

func (f failingContainer) Read([]byte) (int, error) { return 0, f.err }

// archiveChecker is a container that records whether it ever got a complete
// archive.
type archiveChecker struct {
	*fixedArchive
	whole bool
}

func (s *archiveChecker) CopyIn(_ context.Context, _, _ string, _ int64, r io.Reader) error {
	in := tar.NewReader(r)
	for {
		_, err := in.Next()
		if errors.Is(err, io.EOF) {
			s.whole = true
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// incompressible returns data that does not compress, the same each time.
func incompressible(n int) string {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(data) //nolint:errcheck // it never fails
	return string(data)
}
