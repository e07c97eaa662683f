package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Why a stream ended, if neither the peer nor its user has given a reason.
var (
	errRequestEnded = errors.New("request has ended")
	errAbandoned    = errors.New("request abandoned")
	errWriteClosed  = errors.New("write after CloseWrite")
)

// Stream is a pair of byte streams, one in each direction, that belong to a
// request. At most its window, in bytes, is sent that the other end has not read, so
// a stream without a reader blocks only itself. One goroutine may read while
// another one writes. Reset may be called by any goroutine.
type Stream struct {
	exchange *exchange
	index    byte
	window   int // of each direction, in bytes

	// isReset reports whether KindReset was sent. Guarded by writeMu of the connection.
	isReset bool

	// mu guards the fields below. It is never held during I/O.
	mu   sync.Mutex
	cond sync.Cond

	// Receiving.
	chunks     []chunk  // received, not yet read
	spare      [][]byte // of chunks that were read
	recvWindow int      // how many more bytes may arrive
	consumed   int      // read, not yet granted again
	readErr    error    // returned by Read after the last chunk; nil if more may arrive
	peerEnded  bool     // the peer has sent KindEnd
	peerReset  bool     // the peer has reset the stream

	// Sending.
	credit    int   // how many more bytes may be sent
	writeErr  error // returned by Write; nil if more may be sent
	resetSent bool  // this end has reset the stream

	isDone bool          // done is closed
	done   chan struct{} // closed when the stream is reset or its request ends
}

func newStream(exchange *exchange, index byte, window int) *Stream {
	s := &Stream{exchange: exchange, index: index, window: window, recvWindow: window, credit: window, done: make(chan struct{})}
	s.cond.L = &s.mu
	return s
}

// Read implements io.Reader. It returns io.EOF only after the peer's KindEnd.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	s.waitReadable()
	if len(s.chunks) == 0 {
		defer s.mu.Unlock()
		return 0, s.readErr
	}
	first := &s.chunks[0]
	n := copy(p, first.unread)
	if first.unread = first.unread[n:]; len(first.unread) == 0 {
		s.recycle(first.buffer)
		s.dropFirst()
	}
	grant := s.consume(n)
	s.mu.Unlock()
	s.grant(grant)
	return n, nil
}

// WriteTo implements io.WriterTo. It writes until the peer's KindEnd, from the
// buffers in which the bytes arrived.
func (s *Stream) WriteTo(to io.Writer) (written int64, err error) {
	for {
		s.mu.Lock()
		s.waitReadable()
		if len(s.chunks) == 0 {
			defer s.mu.Unlock()
			if errors.Is(s.readErr, io.EOF) {
				return written, nil
			}
			return written, s.readErr
		}
		first := s.chunks[0]
		s.dropFirst()
		s.mu.Unlock()
		n, err := to.Write(first.unread)
		written += int64(n)
		s.mu.Lock()
		s.recycle(first.buffer)
		grant := s.consume(n)
		s.mu.Unlock()
		s.grant(grant)
		if err != nil {
			return written, err
		}
	}
}

// dropFirst removes the first chunk. The caller holds mu.
func (s *Stream) dropFirst() {
	s.chunks[0] = chunk{}
	s.chunks = s.chunks[1:]
}

// consume counts bytes that were read, and returns how many more the peer may
// send. The caller holds mu.
func (s *Stream) consume(n int) (grant int) {
	s.consumed += n
	if s.readErr != nil || s.consumed < s.window/4 {
		return 0
	}
	grant, s.consumed = s.consumed, 0
	s.recvWindow += grant
	return grant
}

// grant sends that the peer may send more.
func (s *Stream) grant(more int) {
	if more > 0 {
		_ = s.send(KindCredit, binary.BigEndian.AppendUint32(nil, uint32(more))) // the next Read returns the connection's error
	}
}

// WaitReadable waits until there is something to read. If nothing will arrive,
// it returns the error that Read would return.
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

// Write implements io.Writer. It waits until the peer has room for all bytes.
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

// CloseWrite signals the peer that all bytes are written.
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

// Reset immediately ends both directions and sends the reason to the peer. Read
// and Write return the reason from then on. Unread bytes are dropped.
func (s *Stream) Reset(reason error) {
	if reason == nil {
		reason = errNoReason
	}
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
	_ = s.send(KindReset, body) // an error means that the connection or the request has ended, so the stream has, too
}

// errNoReason is the reason of a reset without one.
var errNoReason = errors.New("stream was reset")

// maxResetSize bounds the encoded reason of a reset, in bytes.
const maxResetSize = 4 << 10

// abort ends both directions and drops unread bytes. The caller holds mu.
func (s *Stream) abort(reason error) {
	s.chunks, s.spare, s.readErr, s.writeErr = nil, nil, reason, reason
	s.signalDone()
}

// signalDone permanently wakes all callers that wait for the stream. The caller
// holds mu.
func (s *Stream) signalDone() {
	if !s.isDone {
		s.isDone = true
		close(s.done)
	}
	s.cond.Broadcast()
}

// Done returns a channel that is closed when either end resets the stream, or
// when its request is answered or lost. It is for callers that wait for
// something other than the stream's bytes.
func (s *Stream) Done() <-chan struct{} { return s.done }

// finish ends both directions. Received bytes can still be read.
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

// streamHeaderSize is the size of a stream frame's header: the request ID and
// the stream index.
const streamHeaderSize = 8 + 1

// send sends a frame of the stream, unless our last frame of the stream or of the
// request is sent: another goroutine may have sent that since the caller looked.
func (s *Stream) send(kind Kind, body []byte) error {
	c := s.exchange.conn
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if s.exchange.ended.Load() {
		return errRequestEnded
	}
	if s.isReset {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.writeErr
	}
	s.isReset = kind == KindReset
	return c.withWriteTimeout(func() error { return c.channel.writeRaw(kind, s.exchange.id, s.index, body) })
}

// handleStreamFrame passes a frame to its stream.
func (c *Conn) handleStreamFrame(f Frame) error {
	if len(f.Body) < streamHeaderSize {
		return protocolError("frame kind %q with %d bytes", f.Kind, len(f.Body))
	}
	id, index, body := binary.BigEndian.Uint64(f.Body), int(f.Body[8]), f.Body[streamHeaderSize:]
	x, err := c.exchangeByID(id)
	if err != nil {
		return err
	}
	if index >= len(x.streams) {
		return protocolError("a message for unknown stream %d of request %d", index, id)
	}
	s := x.streams[index]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peerReset {
		return protocolError("a message for stream %d of request %d after its reset", index, id)
	}
	defer s.cond.Broadcast()
	switch f.Kind {
	case KindData:
		return s.handleData(body, f.buffer)
	case KindCredit:
		return s.handleCredit(body)
	case KindEnd:
		return s.handleEnd(body)
	default:
		return s.handleReset(body)
	}
}

// handleData stores received bytes for the reader. Small pieces share a chunk,
// so that a stream never holds more than twice its window. A large one stays where it
// arrived, in the buffer of its frame, which gets another buffer in exchange. The
// caller holds mu.
func (s *Stream) handleData(body []byte, frame *[]byte) error {
	switch {
	case s.peerEnded:
		return protocolError("data after the end of a stream")
	case len(body) == 0 || len(body) > MaxData:
		return protocolError("data frame with %d bytes", len(body))
	case len(body) > s.recvWindow:
		return protocolError("data frame with %d bytes, at most %d are allowed", len(body), s.recvWindow)
	}
	s.recvWindow -= len(body)
	if s.readErr != nil {
		return nil // the stream has ended for its reader
	}
	if last := len(s.chunks) - 1; last >= 0 && cap(s.chunks[last].unread)-len(s.chunks[last].unread) >= len(body) {
		s.chunks[last].unread = append(s.chunks[last].unread, body...)
		return nil
	}
	buffer := s.chunkBuffer(len(body))
	if cap(buffer) == frameBuffer && frame != nil {
		buffer, *frame = (*frame)[:0], buffer[:frameBuffer]
		s.chunks = append(s.chunks, chunk{unread: body, buffer: buffer})
		return nil
	}
	s.chunks = append(s.chunks, chunk{unread: append(buffer, body...), buffer: buffer})
	return nil
}

// handleCredit increases how much may be sent. The caller holds mu.
func (s *Stream) handleCredit(body []byte) error {
	if len(body) != 4 {
		return protocolError("credit frame with %d bytes", len(body))
	}
	more := binary.BigEndian.Uint32(body)
	if more == 0 || uint64(more) > uint64(s.window-s.credit) {
		return protocolError("credit for %d bytes exceeds the window: %d are open", more, s.credit)
	}
	s.credit += int(more)
	return nil
}

// handleEnd ends the receiving direction. The caller holds mu.
func (s *Stream) handleEnd(body []byte) error {
	if s.peerEnded || len(body) > 0 {
		return protocolError("unexpected end of a stream, with %d bytes", len(body))
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
		return protocolError("reset reason with %d bytes", len(body))
	}
	var wireErr WireError
	if err := json.Unmarshal(body, &wireErr); err != nil {
		return protocolError("parse a reset reason: %w", err)
	}
	s.peerReset = true
	if !s.resetSent {
		s.abort(fmt.Errorf("stream reset by peer: %w", wireErr.Err()))
	}
	return nil
}
