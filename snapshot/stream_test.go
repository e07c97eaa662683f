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

// start is when what tests put somewhere was made.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// errCut is how a stream that was cut ends.
var errCut = errors.New("cut off")

// streamed is a container that gives the same archive for every folder.
type streamed struct {
	data []byte
	end  error // in place of io.EOF
}

func stream(data []byte) *streamed { return &streamed{data, io.EOF} }

// cut ends the archive early, and badly.
func (s *streamed) cut(n int) *streamed { return &streamed{s.data[:n], errCut} }

func (s *streamed) GetFiles(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(s.data), failing{s.end})), nil
}

func (s *streamed) PutFiles(_ context.Context, _, _ string, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// strict is a container that remembers whether it ever got a whole archive.
type strict struct {
	*streamed
	whole bool
}

func (s *strict) PutFiles(_ context.Context, _, _ string, r io.Reader) error {
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

// noise is text that does not compress, the same each time.
func noise(n int) string {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(data) //nolint:errcheck // it never fails
	return string(data)
}
