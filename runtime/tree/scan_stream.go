package tree

import (
	"encoding/binary"
	"errors"
	"io"
)

// ScanReader is the server's end of a scan. It implements Scan except Close.
type ScanReader struct {
	from    reader
	to      writer
	order   order
	batch   []Entry
	open    bool  // the batch has to be answered
	failure error // of an earlier call
}

// NewScanReader returns the end of a stream on which the program sends first. The
// stream returns io.EOF only if the program confirms the end.
func NewScanReader(stream io.ReadWriter) *ScanReader {
	return &ScanReader{from: newReader(stream), to: newWriter(stream)}
}

// Next implements Scan.
func (s *ScanReader) Next() ([]Entry, error) {
	if s.failure == nil && s.open {
		s.failure = s.want(nil)
	}
	if s.failure == nil {
		s.failure = s.readBatch()
	}
	if s.failure != nil {
		return nil, s.failure
	}
	return s.batch, nil
}

func (s *ScanReader) readBatch() error {
	kind, n, err := s.from.next()
	switch {
	case err != nil:
		return err
	case kind == frameEnd:
		return s.from.end()
	case kind != frameBatch:
		return malformed("message %q instead of a batch", byte(kind))
	}
	payload, err := s.from.read(n)
	if err != nil {
		return err
	}
	if s.batch, err = decodeBatch(payload, s.batch[:0], &s.order); err != nil {
		return err
	}
	s.open = true
	return nil
}

// decodeBatch decodes a batch and appends its entries.
func decodeBatch(payload []byte, batch []Entry, after *order) ([]Entry, error) {
	f, before, size := fields{b: payload}, "", 0
	for len(f.b) > 0 {
		e, err := f.entry(before)
		if err == nil {
			err = after.followParent(e.Path, e.Kind)
		}
		if size += e.size(); err == nil && (size > maxBatchSize || len(batch) == MaxBatch) {
			err = malformed("a batch is too large")
		}
		if err != nil {
			return nil, err
		}
		before = e.Path
		batch = append(batch, e)
	}
	if len(batch) == 0 {
		return nil, malformed("an empty batch")
	}
	return batch, nil
}

// want answers the batch.
func (s *ScanReader) want(indexes []int) error {
	s.open = false
	s.to.payload = s.to.payload[:0]
	last := -1
	for _, i := range indexes {
		if i <= last || i >= len(s.batch) || s.batch[i].Kind != File {
			return errors.New("read a tree: not an index of a file, or not in order")
		}
		s.to.payload = binary.AppendUvarint(s.to.payload, uint64(i-last))
		last = i
	}
	if err := s.to.send(frameWant, s.to.payload); err != nil {
		return err
	}
	return s.to.out.Flush()
}

// Read implements Scan.
func (s *ScanReader) Read(indexes []int, each func(int, Entry, Content) error) error {
	if s.failure == nil && !s.open {
		s.failure = errors.New("read a tree: not after Next")
	}
	if s.failure == nil {
		s.failure = s.want(indexes)
	}
	for _, i := range indexes {
		if s.failure != nil {
			break
		}
		s.failure = s.readFile(i, each)
	}
	return s.failure
}

// readFile reads a file, or that it has gone.
func (s *ScanReader) readFile(i int, each func(int, Entry, Content) error) error {
	kind, n, err := s.from.next()
	switch {
	case err != nil:
		return err
	case kind == frameGone:
		return nil
	case kind != frameFile:
		return malformed("message %q instead of a file", byte(kind))
	}
	payload, err := s.from.read(n)
	if err != nil {
		return err
	}
	as := Entry{Path: s.batch[i].Path, Kind: File}
	f := fields{b: payload}
	if err := f.attributes(&as); err != nil {
		return err
	}
	if len(f.b) > 0 {
		return malformed("bytes after the attributes of %.100q", as.Path)
	}
	c := &content{from: &s.from, left: as.Size}
	if err := each(i, as, c); err != nil {
		return err
	}
	return c.skip()
}

// Batch collects entries for ScanWriter.Send.
type Batch struct {
	Entries []Entry
	size    int
}

// Add adds an entry. It returns false if the batch has no room for it.
func (b *Batch) Add(e Entry) bool {
	size := b.size + e.size()
	if size > maxBatchSize || len(b.Entries) == MaxBatch {
		return false
	}
	b.Entries, b.size = append(b.Entries, e), size
	return true
}

// Reset empties the batch.
func (b *Batch) Reset() { b.Entries, b.size = b.Entries[:0], 0 }

// ScanWriter is the program's end of a scan.
type ScanWriter struct {
	reader
	writer
}

// NewScanWriter returns the end of a stream.
func NewScanWriter(from io.Reader, to io.Writer) *ScanWriter {
	return &ScanWriter{reader: newReader(from), writer: newWriter(to)}
}

// Send sends a batch and returns the indexes of the files to send.
func (s *ScanWriter) Send(b *Batch) ([]int, error) {
	s.writer.payload = s.writer.payload[:0]
	before := ""
	for i := range b.Entries {
		e := &b.Entries[i]
		s.writer.payload = appendEntry(s.writer.payload, before, e)
		before = e.Path
	}
	if err := s.send(frameBatch, s.writer.payload); err != nil {
		return nil, err
	}
	if err := s.out.Flush(); err != nil {
		return nil, err
	}
	kind, n, err := s.reader.next()
	if err == nil && kind != frameWant {
		err = malformed("message %q instead of indexes", byte(kind))
	}
	if err != nil {
		return nil, err
	}
	payload, err := s.read(n)
	if err != nil {
		return nil, err
	}
	return decodeWant(payload, b.Entries)
}

func decodeWant(payload []byte, batch []Entry) ([]int, error) {
	var wanted []int
	f, last := fields{b: payload}, -1
	for len(f.b) > 0 {
		delta := f.uvarint()
		if f.bad || delta == 0 || delta > MaxBatch || last+int(delta) >= len(batch) {
			return nil, malformed("an index")
		}
		if last += int(delta); batch[last].Kind != File {
			return nil, malformed("an index of what is no file")
		}
		wanted = append(wanted, last)
	}
	return wanted, nil
}

// Gone sends that the next file that is wanted is no longer one.
func (s *ScanWriter) Gone() error {
	if err := s.mayBegin(); err != nil {
		return err
	}
	return s.send(frameGone, nil)
}

// File sends the next file that is wanted, as it was opened. Write and Hole send its
// content.
func (s *ScanWriter) File(e Entry) error {
	if err := s.mayBegin(); err != nil {
		return err
	}
	s.left = e.Size
	s.writer.payload = appendAttributes(s.writer.payload[:0], &e)
	return s.send(frameFile, s.writer.payload)
}

// End sends the end of the tree.
func (s *ScanWriter) End() error {
	if err := errors.Join(s.mayBegin(), s.send(frameEnd, nil)); err != nil {
		return err
	}
	return s.out.Flush()
}
