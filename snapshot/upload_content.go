package snapshot

import (
	"bytes"
	"errors"
	"io"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// contentReader reads the extents of a file. Its Read returns io.EOF at the end
// of an extent of data.
type contentReader struct {
	from tree.Content
	path string
	left int64 // bytes of the file that have not come
	data []byte
	hole int64
	end  bool
}

// minHole is the least hole that is one: filesystems have none that are smaller. What
// a container sends as smaller ones would make a chunk of each few bytes between
// them, and so an index that is many times as large as the file.
const minHole = 512

var shortHole [minHole]byte

// fill gets the next extent, or part of one, unless there is some left.
func (r *contentReader) fill() error {
	if len(r.data) > 0 || r.hole > 0 || r.end {
		return nil
	}
	data, hole, err := r.from.Next()
	if errors.Is(err, io.EOF) {
		r.end = true
		if r.left > 0 {
			return archiveErrorf("%.200q ends %d bytes before its size", r.path, r.left)
		}
		return nil
	}
	if err != nil {
		return err
	}
	size := int64(len(data)) + hole
	if hole < 0 || size == 0 || len(data) > 0 && hole > 0 || size > r.left {
		return archiveErrorf("%.200q has an extent of %d bytes and a hole of %d, of %d", r.path, len(data), hole, r.left)
	}
	if hole < minHole && hole > 0 {
		data, hole = shortHole[:hole], 0
	}
	r.data, r.hole = data, hole
	r.left -= size
	return nil
}

// Read reads from an extent of data.
func (r *contentReader) Read(b []byte) (int, error) {
	if err := r.fill(); err != nil {
		return 0, err
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.data)
	r.data = r.data[n:]
	return n, nil
}

// cut cuts the content of a file into chunks.
func (s *partScan) cut(f *fileWriter, as tree.Entry, content tree.Content) error {
	r := &contentReader{from: content, path: as.Path, left: as.Size}
	for {
		if err := r.fill(); err != nil {
			return err
		}
		if r.hole > 0 {
			f.addHole(r.hole)
			r.hole = 0
			continue
		}
		if r.end {
			return nil
		}
		extent := s.cutExtent
		if as.Size <= pack.AverageChunk {
			extent = s.wholeExtent
		}
		if err := extent(f, r, as.Size); err != nil {
			return err
		}
	}
}

// wholeExtent makes one chunk of an extent of a small file.
func (s *partScan) wholeExtent(f *fileWriter, r *contentReader, size int64) error {
	if int64(cap(s.buf)) < size {
		s.buffers.put(s.buf)
		s.buf = s.buffers.get(int(size))
	}
	n, err := io.ReadFull(r, s.buf[:size])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	kept, err := f.addData(s.buf[:n], true)
	if kept {
		s.buf = nil
	}
	return err
}

// cutExtent cuts an extent of a large file.
func (s *partScan) cutExtent(f *fileWriter, r *contentReader, _ int64) error {
	if s.chunker == nil {
		var err error
		if s.chunker, err = pack.NewChunker(s.repo.format); err != nil {
			return err
		}
	}
	s.chunker.Reset(r)
	for {
		chunk, err := s.chunker.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := f.addData(chunk, false); err != nil {
			return err
		}
	}
}

// isZero reports whether data are all zeros.
func isZero(data []byte) bool {
	return len(data) > 0 && data[0] == 0 && bytes.Equal(data[1:], data[:len(data)-1])
}
