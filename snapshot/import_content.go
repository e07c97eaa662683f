package snapshot

import (
	"io"

	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// contentWriter stores the content of files as chunks. What earlier snapshots have is
// stored again: an import repairs a state whose packs are damaged. It is used by one
// goroutine.
type contentWriter struct {
	to      *pack.Writer
	hash    func(pack.Kind, []byte) pack.Hash
	chunker *pack.Chunker
	whole   []byte // a file of one chunk
	recent  map[pack.Hash]pack.Ref
}

func newContentWriter(f *pack.Format) (*contentWriter, error) {
	chunker, err := pack.NewChunker(f)
	if err != nil {
		return nil, err
	}
	return &contentWriter{hash: f.Hasher(), chunker: chunker, recent: map[pack.Hash]pack.Ref{}}, nil
}

// write stores content of a size.
func (w *contentWriter) write(content io.Reader, size int64) ([]index.Chunk, error) {
	if size == 0 {
		return nil, nil
	}
	if size <= pack.AverageChunk {
		w.whole = append(w.whole[:0], make([]byte, size)...)
		if _, err := io.ReadFull(content, w.whole); err != nil {
			return nil, err
		}
		return w.add(nil, w.whole)
	}
	var chunks []index.Chunk
	w.chunker.Reset(content)
	for {
		data, err := w.chunker.Next()
		if err == io.EOF { //nolint:errorlint // Next returns it itself
			return chunks, nil
		}
		if err != nil {
			return nil, err
		}
		if chunks, err = w.add(chunks, data); err != nil {
			return nil, err
		}
	}
}

// add appends a chunk. One of zeros is a hole.
func (w *contentWriter) add(chunks []index.Chunk, data []byte) ([]index.Chunk, error) {
	if isZero(data) {
		if n := len(chunks); n > 0 && chunks[n-1].Hole > 0 {
			chunks[n-1].Hole += int64(len(data))
			return chunks, nil
		}
		return append(chunks, index.Chunk{Hole: int64(len(data))}), nil
	}
	hash := w.hash(pack.Data, data)
	ref, ok := w.recent[hash]
	if !ok {
		var err error
		if ref, err = w.to.Add(pack.Data, hash, data); err != nil {
			return nil, err
		}
		if len(w.recent) < maxRecent {
			w.recent[hash] = ref
		}
	}
	return append(chunks, index.Chunk{Ref: ref}), nil
}
