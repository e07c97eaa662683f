package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Why a stream is over, besides what the peer says and what its user does.
var (
	errAnswered    = errors.New("the request is answered")
	errForgotten   = errors.New("nobody waits for it any more")
	errWriteClosed = errors.New("written to after its end")
)

// Stream is bytes in both directions that belong to a request. At most Window
// bytes are sent that the other end has not read, so a stream that nobody reads
// holds up nothing but itself. One goroutine may read while another one writes;
// Reset may be called by any.
type Stream struct {
	x      *exchange
	number byte

	// mu guards what follows. It is held for no I/O.
	mu      sync.Mutex
	changed sync.Cond

	// What the peer sends.
	chunks    [][]byte // what is not read yet
	allowed   int      // how much more may come
	read      int      // what was read and is not granted again
	inEnd     error    // what Read says when all is read; nil when more may come
	peerEnded bool     // the peer has sent its end
	peerReset bool     // the peer says nothing more

	// What we send.
	credit int   // how much more may be sent
	outEnd error // what Write says; nil when more may be sent
	reset  bool  // a Reset is sent

	isOver bool          // over is closed
	over   chan struct{} // closed when the stream was broken off, or its request is over
}

func newStream(x *exchange, number byte) *Stream {
	s := &Stream{x: x, number: number, allowed: Window, credit: Window, over: make(chan struct{})}
	s.changed.L = &s.mu
	return s
}

// Read is io.Reader. It is io.EOF only after the end that the peer has sent.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	s.await()
	if len(s.chunks) == 0 {
		defer s.mu.Unlock()
		return 0, s.inEnd
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; len(s.chunks[0]) == 0 {
		s.chunks[0] = nil
		s.chunks = s.chunks[1:]
	}
	s.read += n
	grant := 0
	if s.inEnd == nil && s.read >= Window/4 {
		grant, s.read = s.read, 0
		s.allowed += grant
	}
	s.mu.Unlock()
	if grant > 0 {
		_ = s.send(KindCredit, binary.BigEndian.AppendUint32(nil, uint32(grant))) // the next Read says that the connection is over
	}
	return n, nil
}

// Await waits until there is something to read, and returns what Read would say
// when nothing will come.
func (s *Stream) Await() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.await()
	if len(s.chunks) == 0 {
		return s.inEnd
	}
	return nil
}

// await waits for bytes or the end. The caller holds mu.
func (s *Stream) await() {
	for len(s.chunks) == 0 && s.inEnd == nil {
		s.changed.Wait()
	}
}

// Write is io.Writer. It waits until the peer has room for all.
func (s *Stream) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		s.mu.Lock()
		for s.credit == 0 && s.outEnd == nil {
			s.changed.Wait()
		}
		if s.outEnd != nil {
			defer s.mu.Unlock()
			return written, s.outEnd
		}
		n := min(len(p)-written, s.credit, MaxData)
		s.credit -= n
		s.mu.Unlock()
		if err := s.send(KindData, p[written:written+n]); err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// CloseWrite tells the peer that all is written.
func (s *Stream) CloseWrite() error {
	s.mu.Lock()
	if s.outEnd != nil {
		defer s.mu.Unlock()
		return s.outEnd
	}
	s.outEnd = errWriteClosed
	s.mu.Unlock()
	return s.send(KindEnd, nil)
}

// Reset ends both directions at once, for a reason that the peer is told. It is
// what Read and Write say from then on; what was not read is dropped.
func (s *Stream) Reset(reason error) {
	s.mu.Lock()
	if s.reset || s.peerReset {
		s.mu.Unlock()
		return
	}
	s.reset = true
	s.end(reason)
	s.mu.Unlock()
	body, err := json.Marshal(NewFault(reason))
	if err != nil || len(body) > maxReset {
		body = []byte("{}")
	}
	_ = s.send(KindReset, body) // or the connection or the request is over, which says it, too
}

// maxReset bounds the reason in a frame.
const maxReset = 4 << 10

// end ends both directions and drops what was not read. The caller holds mu.
func (s *Stream) end(reason error) {
	s.chunks, s.inEnd, s.outEnd = nil, reason, reason
	s.close()
}

// close wakes the callers that wait for the stream, for good. The caller holds mu.
func (s *Stream) close() {
	if !s.isOver {
		s.isOver = true
		close(s.over)
	}
	s.changed.Broadcast()
}

// Over is closed when the stream was broken off by either end, or its request is
// answered or lost: for callers that wait for something else than its bytes.
func (s *Stream) Over() <-chan struct{} { return s.over }

// finish ends both directions; what has come may still be read.
func (s *Stream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inEnd == nil {
		s.inEnd = err
	}
	if s.outEnd == nil || errors.Is(s.outEnd, errWriteClosed) {
		s.outEnd = err
	}
	s.close()
}

// streamHead is what a frame of a stream begins with: the request's number and
// the stream's.
const streamHead = 8 + 1

// send sends a frame of the stream, unless our last frame of the request is sent.
func (s *Stream) send(kind Kind, body []byte) error {
	c := s.x.conn
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if s.x.ended.Load() {
		return errAnswered
	}
	return c.watched(func() error { return c.channel.writeRaw(kind, s.x.id, s.number, body) })
}

// takeStreamFrame hands a frame to the stream that it is for.
func (c *Conn) takeStreamFrame(f Frame) error {
	if len(f.Body) < streamHead {
		return violation("a frame of kind %q of %d bytes", f.Kind, len(f.Body))
	}
	id, number, body := binary.BigEndian.Uint64(f.Body), int(f.Body[8]), f.Body[streamHead:]
	x, err := c.exchangeOf(id)
	if err != nil {
		return err
	}
	if number >= len(x.streams) {
		return violation("a message about stream %d of request %d, which is none", number, id)
	}
	s := x.streams[number]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peerReset {
		return violation("a message about stream %d of request %d after its end", number, id)
	}
	defer s.changed.Broadcast()
	switch f.Kind {
	case KindData:
		return s.takeData(body)
	case KindCredit:
		return s.takeCredit(body)
	case KindEnd:
		return s.takeEnd(body)
	default:
		return s.takeReset(body)
	}
}

// takeData keeps what has come for the reader. Small pieces share a chunk, so
// that a stream never holds more than twice Window. The caller holds mu.
func (s *Stream) takeData(body []byte) error {
	switch {
	case s.peerEnded:
		return violation("bytes after the end of a stream")
	case len(body) == 0 || len(body) > MaxData:
		return violation("%d bytes in a frame", len(body))
	case len(body) > s.allowed:
		return violation("%d bytes, of which %d are allowed", len(body), s.allowed)
	}
	s.allowed -= len(body)
	if s.inEnd != nil {
		return nil // nobody reads it
	}
	if last := len(s.chunks) - 1; last >= 0 && cap(s.chunks[last])-len(s.chunks[last]) >= len(body) {
		s.chunks[last] = append(s.chunks[last], body...)
		return nil
	}
	chunk := make([]byte, 0, max(len(body), minChunk))
	s.chunks = append(s.chunks, append(chunk, body...))
	return nil
}

// minChunk is the least that is taken for bytes that have come.
const minChunk = 4 << 10

// takeCredit lets us send more. The caller holds mu.
func (s *Stream) takeCredit(body []byte) error {
	if len(body) != 4 {
		return violation("a credit of %d bytes", len(body))
	}
	more := binary.BigEndian.Uint32(body)
	if more == 0 || uint64(more) > uint64(Window-s.credit) {
		return violation("a credit for %d bytes, beside one for %d", more, s.credit)
	}
	s.credit += int(more)
	return nil
}

// takeEnd ends what is to be read. The caller holds mu.
func (s *Stream) takeEnd(body []byte) error {
	if s.peerEnded || len(body) > 0 {
		return violation("an end of a stream too many, or with %d bytes", len(body))
	}
	s.peerEnded = true
	if s.inEnd == nil {
		s.inEnd = io.EOF
	}
	return nil
}

// takeReset ends both directions. The caller holds mu.
func (s *Stream) takeReset(body []byte) error {
	if len(body) > maxReset {
		return violation("%d bytes of reason", len(body))
	}
	var fault Fault
	if err := json.Unmarshal(body, &fault); err != nil {
		return violation("a reset without a reason: %w", err)
	}
	s.peerReset = true
	if !s.reset {
		s.end(fmt.Errorf("the other end broke the stream off: %w", fault.Err()))
	}
	return nil
}
