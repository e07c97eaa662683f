package shim

import (
	"sync/atomic"
)

// event is a message about a request of ours; answer is nil for a note.
type event struct {
	turn   Turn
	answer *Answer
}

// exchange is one request, of either end, with its streams, until both ends have
// sent their last frame of it: the answer and, where there are streams, a Done
// for the answer.
type exchange struct {
	conn    *Conn
	id      uint64
	streams []*Stream

	// ended says that our last frame of it is sent. It is set with conn.writeMu
	// held, so that no frame follows.
	ended atomic.Bool

	// Of a request of ours.
	events    chan event
	notes     int  // guarded by conn.mu
	forgotten bool // nobody waits for it any more; guarded by conn.mu
}

func newExchange(c *Conn, id uint64, streams int) *exchange {
	x := &exchange{conn: c, id: id}
	for n := range streams {
		x.streams = append(x.streams, newStream(x, byte(n)))
	}
	return x
}

// Stream is one of the request's streams, from 0.
func (x *exchange) Stream(n int) *Stream { return x.streams[n] }

// finish ends the streams for their users at this end.
func (x *exchange) finish(err error) {
	for _, s := range x.streams {
		s.finish(err)
	}
}

// Outgoing is a request of ours.
type Outgoing struct{ *exchange }

// Ask sends a request, with as many streams as it says. The caller drops it with
// Forget.
func (c *Conn) Ask(r Request) (Outgoing, error) {
	// The numbers are sent in their order.
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	x, err := c.begin(r.Streams)
	if err != nil {
		return Outgoing{}, err
	}
	r.ID = x.id
	if err := c.write(KindRequest, r); err != nil {
		c.drop(x) // the peer has not seen it, or the connection is over
		return Outgoing{}, err
	}
	return Outgoing{x}, nil
}

// Tell sends a request that has no answer.
func (c *Conn) Tell(r Request) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.write(KindRequest, r)
}

// begin makes a request of ours, with its number. What the peer would not take
// is errTooManyOpen.
func (c *Conn) begin(streams int) (*exchange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, errLinkLost
	}
	if !c.asking.fits(streams, c.other) {
		return nil, errTooManyOpen
	}
	c.sent += 2
	x := newExchange(c, c.sent, streams)
	x.events = make(chan event, maxNotes+1)
	c.open[x.id] = x
	c.asking.requests++
	c.asking.streams += streams
	if _, can := c.stream.(Checker); can && c.check == nil {
		c.checkLater(firstCheck)
	}
	return x, nil
}

// drop forgets a request that was not sent.
func (c *Conn) drop(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, x.id)
	c.asking.requests--
	c.asking.streams -= len(x.streams)
}

// Forget says that nobody waits for the request any more. The peer is told by its
// streams, if there are any. Until it answers, the request counts as open.
func (o Outgoing) Forget() {
	c := o.conn
	c.mu.Lock()
	o.forgotten = true
	_, open := c.open[o.id]
	c.mu.Unlock()
	if !open {
		return
	}
	for _, s := range o.streams {
		s.Reset(errForgotten)
	}
}

// takeNote hands a note to the request's caller.
func (c *Conn) takeNote(f Frame) error {
	note, err := Decode[Note](f, KindNote)
	if err != nil {
		return err
	}
	x, err := c.exchangeOf(note.ID)
	if err != nil {
		return err
	}
	c.mu.Lock()
	x.notes++
	known := x.events != nil && x.notes <= maxNotes
	c.mu.Unlock()
	if !known {
		return violation("a note too many about request %d", note.ID)
	}
	x.events <- event{turn: note.Turn} // there is room
	return nil
}

// takeAnswer hands an answer to the request's caller. It is the last that the peer
// sends about it.
func (c *Conn) takeAnswer(f Frame) error {
	answer, err := Decode[Answer](f, KindAnswer)
	if err != nil {
		return err
	}
	x, err := c.exchangeOf(answer.ID)
	if err != nil {
		return err
	}
	if x.events == nil {
		return violation("an answer to a request of its own")
	}
	c.mu.Lock()
	delete(c.open, x.id)
	c.asking.requests--
	c.mu.Unlock()
	c.answered()
	x.events <- event{answer: &answer} // there is room
	x.finish(errAnswered)
	if len(x.streams) > 0 {
		// Ends with the write, which is bounded; there are as many as streams that
		// the peer allows.
		go c.done(x)
	}
	return nil
}

// done sends the last frame of a request of ours that has streams.
func (c *Conn) done(x *exchange) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	x.ended.Store(true)
	if c.write(KindDone, Done{ID: x.id}) != nil {
		return // the connection is over
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking.streams -= len(x.streams)
}

// Incoming is a request of the peer's.
type Incoming struct {
	*exchange
	Request Request
}

// OneWay reports whether the request has no answer.
func (in *Incoming) OneWay() bool { return in.id == 0 }

// Lost is closed when the connection is over.
func (in *Incoming) Lost() <-chan struct{} { return in.conn.lost }

// takeRequest has the handler begin a request.
func (c *Conn) takeRequest(f Frame) error {
	if len(f.Body) > c.self.requestSize {
		return violation("a request of %d bytes, at most %d are allowed", len(f.Body), c.self.requestSize)
	}
	r, err := Decode[Request](f, KindRequest)
	if err != nil {
		return err
	}
	if r.Streams < 0 || r.Streams > maxStreams {
		return violation("a request with %d streams", r.Streams)
	}
	if r.ID == 0 {
		if r.Streams != 0 {
			return violation("a request with streams and without an answer")
		}
		return c.handle(&Incoming{exchange: newExchange(c, 0, 0), Request: r})
	}
	x := newExchange(c, r.ID, r.Streams)
	if err := c.serve(x); err != nil {
		return err
	}
	return c.handle(&Incoming{exchange: x, Request: r})
}

// serve counts a request of the peer's.
func (c *Conn) serve(x *exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return errLinkLost
	case x.id%2 != c.other.first%2 || x.id <= c.taken:
		return violation("the number %d of a request, after %d", x.id, c.taken)
	case !c.serving.fits(len(x.streams), c.self):
		return violation("more requests than %d, or more streams than %d", c.self.requests, c.self.streams)
	}
	c.taken = x.id
	c.open[x.id] = x
	c.serving.requests++
	c.serving.streams += len(x.streams)
	return nil
}

// Note tells the peer how the request gets on.
func (in *Incoming) Note(turn Turn) error {
	c := in.conn
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if in.ended.Load() {
		return errAnswered
	}
	return c.write(KindNote, Note{ID: in.id, Turn: turn})
}

// Answer ends the request. The first answer counts. What the streams hold that
// was not read is dropped.
func (in *Incoming) Answer(a Answer) error {
	if in.OneWay() {
		return nil
	}
	c := in.conn
	a.ID = in.id
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if in.ended.Swap(true) {
		return errAnswered
	}
	c.mu.Lock()
	if len(in.streams) == 0 {
		delete(c.open, in.id)
	}
	c.serving.requests--
	c.mu.Unlock()
	err := c.write(KindAnswer, a)
	in.exchange.finish(errAnswered)
	return err
}

// takeDone ends a request of the peer's that is answered.
func (c *Conn) takeDone(f Frame) error {
	done, err := Decode[Done](f, KindDone)
	if err != nil {
		return err
	}
	x, err := c.exchangeOf(done.ID)
	if err != nil {
		return err
	}
	if !x.ended.Load() { // ours are not open any more when they end
		return violation("the end of request %d before its answer", done.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, x.id)
	c.serving.streams -= len(x.streams)
	return nil
}
