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
	errRequestEnded = errors.New("the request is answered")
	errAbandoned    = errors.New("nobody waits for it any more")
	errWriteClosed  = errors.New("written to after its end")
)

// Stream is bytes in both directions that belong to a request. At most Window
// bytes are sent that the other end has not read, so a stream that nobody reads
// holds up nothing but itself. One goroutine may read while another one writes;
// Reset may be called by any.
type Stream struct {
	exchange *exchange
	index    byte

	// mu guards what follows. It is held for no I/O.
	mu   sync.Mutex
	cond sync.Cond

	// What the peer sends.
	chunks     [][]byte // what is not read yet
	recvWindow int      // how much more may come
	consumed   int      // what was read and is not granted again
	readErr    error    // what Read says when all is read; nil when more may come
	peerEnded  bool     // the peer has sent its end
	peerReset  bool     // the peer says nothing more

	// What we send.
	credit    int   // how much more may be sent
	writeErr  error // what Write says; nil when more may be sent
	resetSent bool  // a Reset is sent

	isDone bool          // over is closed
	done   chan struct{} // closed when the stream was broken off, or its request is over
}

func newStream(exchange *exchange, index byte) *Stream {
	s := &Stream{exchange: exchange, index: index, recvWindow: Window, credit: Window, done: make(chan struct{})}
	s.cond.L = &s.mu
	return s
}

// Read is io.Reader. It is io.EOF only after the end that the peer has sent.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	s.waitReadable()
	if len(s.chunks) == 0 {
		defer s.mu.Unlock()
		return 0, s.readErr
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; len(s.chunks[0]) == 0 {
		s.chunks[0] = nil
		s.chunks = s.chunks[1:]
	}
	s.consumed += n
	grant := 0
	if s.readErr == nil && s.consumed >= Window/4 {
		grant, s.consumed = s.consumed, 0
		s.recvWindow += grant
	}
	s.mu.Unlock()
	if grant > 0 {
		_ = s.send(KindCredit, binary.BigEndian.AppendUint32(nil, uint32(grant))) // the next Read says that the connection is over
	}
	return n, nil
}

// WaitReadable waits until there is something to read, and returns what Read would say
// when nothing will come.
func (s *Stream) WaitReadable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitReadable()
	if len(s.chunks) == 0 {
		return s.readErr
	}
	return nil
}

// waitReadable waits for bytes or the end. The caller holds mu.
func (s *Stream) waitReadable() {
	for len(s.chunks) == 0 && s.readErr == nil {
		s.cond.Wait()
	}
}

// Write is io.Writer. It waits until the peer has room for all.
func (s *Stream) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		s.mu.Lock()
		for s.credit == 0 && s.writeErr == nil {
			s.cond.Wait()
		}
		if s.writeErr != nil {
			defer s.mu.Unlock()
			return written, s.writeErr
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
	if s.writeErr != nil {
		defer s.mu.Unlock()
		return s.writeErr
	}
	s.writeErr = errWriteClosed
	s.mu.Unlock()
	return s.send(KindEnd, nil)
}

// Reset ends both directions at once, for a reason that the peer is told. It is
// what Read and Write say from then on; what was not read is dropped.
func (s *Stream) Reset(reason error) {
	s.mu.Lock()
	if s.resetSent || s.peerReset {
		s.mu.Unlock()
		return
	}
	s.resetSent = true
	s.abort(reason)
	s.mu.Unlock()
	body, err := json.Marshal(NewWireError(reason))
	if err != nil || len(body) > maxResetSize {
		body = []byte("{}")
	}
	_ = s.send(KindReset, body) // or the connection or the request is over, which says it, too
}

// maxResetSize bounds the reason in a frame.
const maxResetSize = 4 << 10

// abort ends both directions and drops what was not read. The caller holds mu.
func (s *Stream) abort(reason error) {
	s.chunks, s.readErr, s.writeErr = nil, reason, reason
	s.signalDone()
}

// signalDone wakes the callers that wait for the stream, for good. The caller holds mu.
func (s *Stream) signalDone() {
	if !s.isDone {
		s.isDone = true
		close(s.done)
	}
	s.cond.Broadcast()
}

// Done is closed when the stream was broken off by either end, or its request is
// answered or lost: for callers that wait for something else than its bytes.
func (s *Stream) Done() <-chan struct{} { return s.done }

// finish ends both directions; what has come may still be read.
func (s *Stream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readErr == nil {
		s.readErr = err
	}
	if s.writeErr == nil || errors.Is(s.writeErr, errWriteClosed) {
		s.writeErr = err
	}
	s.signalDone()
}

// streamHeaderSize is what a frame of a stream begins with: the request's number and
// the stream's.
const streamHeaderSize = 8 + 1

// send sends a frame of the stream, unless our last frame of the request is sent.
func (s *Stream) send(kind Kind, body []byte) error {
	c := s.exchange.conn
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if s.exchange.ended.Load() {
		return errRequestEnded
	}
	return c.withWriteTimeout(func() error { return c.channel.writeRaw(kind, s.exchange.id, s.index, body) })
}

// handleStreamFrame hands a frame to the stream that it is for.
func (c *Conn) handleStreamFrame(f Frame) error {
	if len(f.Body) < streamHeaderSize {
		return protocolError("a frame of kind %q of %d bytes", f.Kind, len(f.Body))
	}
	id, index, body := binary.BigEndian.Uint64(f.Body), int(f.Body[8]), f.Body[streamHeaderSize:]
	x, err := c.exchangeByID(id)
	if err != nil {
		return err
	}
	if index >= len(x.streams) {
		return protocolError("a message about stream %d of request %d, which is none", index, id)
	}
	s := x.streams[index]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peerReset {
		return protocolError("a message about stream %d of request %d after its end", index, id)
	}
	defer s.cond.Broadcast()
	switch f.Kind {
	case KindData:
		return s.handleData(body)
	case KindCredit:
		return s.handleCredit(body)
	case KindEnd:
		return s.handleEnd(body)
	default:
		return s.handleReset(body)
	}
}

// handleData keeps what has come for the reader. Small pieces share a chunk, so
// that a stream never holds more than twice Window. The caller holds mu.
func (s *Stream) handleData(body []byte) error {
	switch {
	case s.peerEnded:
		return protocolError("bytes after the end of a stream")
	case len(body) == 0 || len(body) > MaxData:
		return protocolError("%d bytes in a frame", len(body))
	case len(body) > s.recvWindow:
		return protocolError("%d bytes, of which %d are allowed", len(body), s.recvWindow)
	}
	s.recvWindow -= len(body)
	if s.readErr != nil {
		return nil // nobody reads it
	}
	if last := len(s.chunks) - 1; last >= 0 && cap(s.chunks[last])-len(s.chunks[last]) >= len(body) {
		s.chunks[last] = append(s.chunks[last], body...)
		return nil
	}
	chunk := make([]byte, 0, max(len(body), minChunkSize))
	s.chunks = append(s.chunks, append(chunk, body...))
	return nil
}

// minChunkSize is the least that is taken for bytes that have come.
const minChunkSize = 4 << 10

// handleCredit lets us send more. The caller holds mu.
func (s *Stream) handleCredit(body []byte) error {
	if len(body) != 4 {
		return protocolError("a credit of %d bytes", len(body))
	}
	more := binary.BigEndian.Uint32(body)
	if more == 0 || uint64(more) > uint64(Window-s.credit) {
		return protocolError("a credit for %d bytes, beside one for %d", more, s.credit)
	}
	s.credit += int(more)
	return nil
}

// handleEnd ends what is to be read. The caller holds mu.
func (s *Stream) handleEnd(body []byte) error {
	if s.peerEnded || len(body) > 0 {
		return protocolError("an end of a stream too many, or with %d bytes", len(body))
	}
	s.peerEnded = true
	if s.readErr == nil {
		s.readErr = io.EOF
	}
	return nil
}

// handleReset ends both directions. The caller holds mu.
func (s *Stream) handleReset(body []byte) error {
	if len(body) > maxResetSize {
		return protocolError("%d bytes of reason", len(body))
	}
	var wireErr WireError
	if err := json.Unmarshal(body, &wireErr); err != nil {
		return protocolError("a reset without a reason: %w", err)
	}
	s.peerReset = true
	if !s.resetSent {
		s.abort(fmt.Errorf("the other end broke the stream off: %w", wireErr.Err()))
	}
	return nil
}
