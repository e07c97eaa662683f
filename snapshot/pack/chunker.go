package pack

import (
	"errors"
	"fmt"
	"io"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	// The algorithm registers itself.
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/fastcdc"
)

// algorithm is FastCDC as the library's version 1 computes it. Another version
// could cut elsewhere: then a changed file is stored again, whole.
const algorithm = "fastcdc-v1.0.0"

// The sizes of chunks, in bytes. A file up to AverageChunk is one chunk.
const (
	minChunk     = 256 << 10
	AverageChunk = 1 << 20
)

// Chunker cuts content at places that depend on the bytes there: after a change,
// the cuts before and after it are the same. The places depend on the tenant's salt, so
// that sizes of chunks do not show a known file. It is used by one goroutine.
type Chunker struct {
	chunker *chunkers.Chunker
}

// NewChunker returns a chunker of a tenant's content.
func NewChunker(f *Format) (*Chunker, error) {
	c, err := chunkers.NewChunker(algorithm, nil, &chunkers.ChunkerOpts{
		MinSize: minChunk, NormalSize: AverageChunk, MaxSize: MaxData, Key: f.Salt[:],
	})
	if err != nil {
		return nil, fmt.Errorf("cut content: %w", err)
	}
	return &Chunker{c}, nil
}

// Reset makes Next cut other content.
func (c *Chunker) Reset(content io.Reader) { c.chunker.Reset(content) }

// Next returns the next chunk, up to MaxData bytes, or io.EOF after the last
// one. It is valid until the next call.
func (c *Chunker) Next() ([]byte, error) {
	chunk, err := c.chunker.Next()
	if errors.Is(err, io.EOF) && len(chunk) > 0 {
		err = nil // the last one; the next call returns none
	}
	return chunk, err
}
