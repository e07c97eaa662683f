package tree

import (
	"errors"
	"io"
	"sync/atomic"
)

// Sender is the server's end of a write. One goroutine may call Stamps while another
// one sends.
type Sender struct {
	writer
	order order
	files atomic.Int64 // that were sent

	stamps  reader
	stamped int64 // of the files
	buffer  []Stamp
}

// NewSender returns the end of a stream that returns io.EOF only if the program
// confirms the end.
func NewSender(stream io.ReadWriter) *Sender {
	return &Sender{writer: newWriter(stream), stamps: newReader(stream)}
}

// Create sends an entry.
func (s *Sender) Create(e Entry) error {
	if err := errors.Join(s.mayBegin(), e.Check()); err != nil {
		return err
	}
	before := s.order.path
	if err := s.order.follow(e.Path, e.Kind); err != nil {
		return err
	}
	if e.Kind == File {
		s.files.Add(1)
		s.left, e.Stamp = e.Size, Stamp{}
	}
	s.writer.payload = appendEntry(s.writer.payload[:0], before, &e)
	return s.send(frameCreate, s.writer.payload)
}

// Remove sends the name of what is removed.
func (s *Sender) Remove(path string) error {
	if err := s.mayBegin(); err != nil {
		return err
	}
	if !isPath(path) {
		return malformed("path %.100q", path)
	}
	if err := s.order.follow(path, 0); err != nil {
		return err
	}
	return s.send(frameRemove, []byte(path))
}

// End sends the end of the tree.
func (s *Sender) End() error {
	if err := errors.Join(s.mayBegin(), s.send(frameEnd, nil)); err != nil {
		return err
	}
	return s.out.Flush()
}

// Stamps returns the next stamps, which are valid until the next call, or none. It
// returns io.EOF when all is written.
func (s *Sender) Stamps() ([]Stamp, error) {
	kind, n, err := s.stamps.next()
	switch {
	case err != nil:
		return nil, err
	case kind == frameEnd:
		if s.stamped != s.files.Load() {
			return nil, malformed("stamps of %d files instead of %d", s.stamped, s.files.Load())
		}
		return nil, s.stamps.end()
	case kind != frameStamps:
		return nil, malformed("message %q instead of stamps", byte(kind))
	}
	payload, err := s.stamps.read(n)
	if err != nil {
		return nil, err
	}
	s.buffer = s.buffer[:0]
	for f := (fields{b: payload}); len(f.b) > 0; {
		s.buffer = append(s.buffer, f.stamp())
		if f.bad || len(s.buffer) > maxStamps {
			return nil, malformed("stamps")
		}
	}
	if s.stamped += int64(len(s.buffer)); s.stamped > s.files.Load() {
		return nil, malformed("more stamps than files")
	}
	return s.buffer, nil
}

// Message is what a Receiver receives.
type Message struct {
	Entry     // with only a path if it is removed
	IsRemoved bool
}

// Receiver is the program's end of a write.
type Receiver struct {
	reader
	writer
	order   order
	content content
	stamps  int // in payload
}

// NewReceiver returns the end of a stream.
func NewReceiver(from io.Reader, to io.Writer) *Receiver {
	r := &Receiver{reader: newReader(from), writer: newWriter(to)}
	r.content.from = &r.reader
	return r
}

// Ready confirms that the directory is open.
func (r *Receiver) Ready() error { return r.flushStamps() }

// Next returns the next message, or io.EOF after the last one. What was not read of
// the last file is skipped.
func (r *Receiver) Next() (m Message, err error) {
	if err := r.content.skip(); err != nil {
		return m, err
	}
	kind, n, err := r.reader.next()
	if err != nil {
		return m, err
	}
	if kind == frameEnd {
		return m, io.EOF
	}
	if kind != frameCreate && kind != frameRemove {
		return m, malformed("message %q instead of an entry", byte(kind))
	}
	payload, err := r.read(n)
	if err != nil {
		return m, err
	}
	if kind == frameRemove {
		m.Path, m.IsRemoved = string(payload), true
		if !isPath(m.Path) {
			return m, malformed("path %.100q", m.Path)
		}
		return m, r.order.follow(m.Path, 0)
	}
	f := fields{b: payload}
	if m.Entry, err = f.entry(r.order.path); err != nil {
		return m, err
	}
	if len(f.b) > 0 {
		return m, malformed("bytes after the entry %.100q", m.Path)
	}
	r.content.left, r.content.err = m.Size, nil
	return m, r.order.follow(m.Path, m.Kind)
}

// Content returns the content of the file of the last message.
func (r *Receiver) Content() Content { return &r.content }

// Stamp sends the stamp of the next file, soon.
func (r *Receiver) Stamp(s Stamp) error {
	r.writer.payload = appendStamp(r.writer.payload, s)
	if r.stamps++; r.stamps < maxStamps {
		return nil
	}
	return r.flushStamps()
}

func (r *Receiver) flushStamps() error {
	err := r.send(frameStamps, r.writer.payload)
	r.writer.payload, r.stamps = r.writer.payload[:0], 0
	if err != nil {
		return err
	}
	return r.out.Flush()
}

// End sends that all is written.
func (r *Receiver) End() error {
	if err := errors.Join(r.flushStamps(), r.send(frameEnd, nil)); err != nil {
		return err
	}
	return r.out.Flush()
}
