package shim

import (
	"sync/atomic"
)

// event is a message about a request of ours; answer is nil for a note.
type event struct {
	state    ProgressState
	response *Response
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
	events        chan event
	progressCount int  // guarded by conn.mu
	abandoned     bool // nobody waits for it any more; guarded by conn.mu
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

// Call sends a request, with as many streams as it says. The caller drops it with
// Forget.
func (c *Conn) Call(r Request) (Outgoing, error) {
	// The numbers are sent in their order.
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	x, err := c.register(r.Streams)
	if err != nil {
		return Outgoing{}, err
	}
	r.ID = x.id
	if err := c.write(KindRequest, r); err != nil {
		c.unregister(x) // the peer has not seen it, or the connection is over
		return Outgoing{}, err
	}
	return Outgoing{x}, nil
}

// Notify sends a request that has no answer.
func (c *Conn) Notify(r Request) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.write(KindRequest, r)
}

// register makes a request of ours, with its number. What the peer would not take
// is errTooManyOpen.
func (c *Conn) register(streams int) (*exchange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, errConnLost
	}
	if !c.outgoing.fits(streams, c.remote) {
		return nil, errTooManyOpen
	}
	c.lastSentID += 2
	x := newExchange(c, c.lastSentID, streams)
	x.events = make(chan event, maxProgress+1)
	c.exchanges[x.id] = x
	c.outgoing.requests++
	c.outgoing.streams += streams
	if _, ok := c.stream.(LivenessChecker); ok && c.livenessTimer == nil {
		c.scheduleCheck(minCheckInterval)
	}
	return x, nil
}

// unregister forgets a request that was not sent.
func (c *Conn) unregister(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, x.id)
	c.outgoing.requests--
	c.outgoing.streams -= len(x.streams)
}

// Abandon says that nobody waits for the request any more. The peer is told by its
// streams, if there are any. Until it answers, the request counts as open.
func (o Outgoing) Abandon() {
	c := o.conn
	c.mu.Lock()
	o.abandoned = true
	_, open := c.exchanges[o.id]
	c.mu.Unlock()
	if !open {
		return
	}
	for _, s := range o.streams {
		s.Reset(errAbandoned)
	}
}

// handleProgress hands a note to the request's caller.
func (c *Conn) handleProgress(f Frame) error {
	progress, err := Decode[Progress](f, KindProgress)
	if err != nil {
		return err
	}
	x, err := c.exchangeByID(progress.ID)
	if err != nil {
		return err
	}
	c.mu.Lock()
	x.progressCount++
	expected := x.events != nil && x.progressCount <= maxProgress
	c.mu.Unlock()
	if !expected {
		return protocolError("a note too many about request %d", progress.ID)
	}
	x.events <- event{state: progress.State} // there is room
	return nil
}

// handleResponse hands an answer to the request's caller. It is the last that the peer
// sends about it.
func (c *Conn) handleResponse(f Frame) error {
	response, err := Decode[Response](f, KindResponse)
	if err != nil {
		return err
	}
	x, err := c.exchangeByID(response.ID)
	if err != nil {
		return err
	}
	if x.events == nil {
		return protocolError("an answer to a request of its own")
	}
	c.mu.Lock()
	delete(c.exchanges, x.id)
	c.outgoing.requests--
	c.mu.Unlock()
	c.onResponse()
	x.events <- event{response: &response} // there is room
	x.finish(errRequestEnded)
	if len(x.streams) > 0 {
		// Ends with the write, which is bounded; there are as many as streams that
		// the peer allows.
		go c.sendDone(x)
	}
	return nil
}

// sendDone sends the last frame of a request of ours that has streams.
func (c *Conn) sendDone(x *exchange) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	x.ended.Store(true)
	if c.write(KindDone, Done{ID: x.id}) != nil {
		return // the connection is over
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outgoing.streams -= len(x.streams)
}

// Incoming is a request of the peer's.
type Incoming struct {
	*exchange
	Request Request
}

// OneWay reports whether the request has no answer.
func (in *Incoming) OneWay() bool { return in.id == 0 }

// Closed is closed when the connection is over.
func (in *Incoming) Closed() <-chan struct{} { return in.conn.closed }

// handleRequest has the handler begin a request.
func (c *Conn) handleRequest(f Frame) error {
	if len(f.Body) > c.local.maxRequestSize {
		return protocolError("a request of %d bytes, at most %d are allowed", len(f.Body), c.local.maxRequestSize)
	}
	r, err := Decode[Request](f, KindRequest)
	if err != nil {
		return err
	}
	if r.Streams < 0 || r.Streams > maxStreamsPerRequest {
		return protocolError("a request with %d streams", r.Streams)
	}
	if r.ID == 0 {
		if r.Streams != 0 {
			return protocolError("a request with streams and without an answer")
		}
		return c.handle(&Incoming{exchange: newExchange(c, 0, 0), Request: r})
	}
	x := newExchange(c, r.ID, r.Streams)
	if err := c.registerIncoming(x); err != nil {
		return err
	}
	return c.handle(&Incoming{exchange: x, Request: r})
}

// registerIncoming counts a request of the peer's.
func (c *Conn) registerIncoming(x *exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return errConnLost
	case x.id%2 != c.remote.firstID%2 || x.id <= c.lastReceivedID:
		return protocolError("the number %d of a request, after %d", x.id, c.lastReceivedID)
	case !c.incoming.fits(len(x.streams), c.local):
		return protocolError("more requests than %d, or more streams than %d", c.local.maxRequests, c.local.maxStreams)
	}
	c.lastReceivedID = x.id
	c.exchanges[x.id] = x
	c.incoming.requests++
	c.incoming.streams += len(x.streams)
	return nil
}

// SendProgress tells the peer how the request gets on.
func (in *Incoming) SendProgress(state ProgressState) error {
	c := in.conn
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if in.ended.Load() {
		return errRequestEnded
	}
	return c.write(KindProgress, Progress{ID: in.id, State: state})
}

// Respond ends the request. The first answer counts. What the streams hold that
// was not read is dropped.
func (in *Incoming) Respond(a Response) error {
	if in.OneWay() {
		return nil
	}
	c := in.conn
	a.ID = in.id
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if in.ended.Swap(true) {
		return errRequestEnded
	}
	c.mu.Lock()
	if len(in.streams) == 0 {
		delete(c.exchanges, in.id)
	}
	c.incoming.requests--
	c.mu.Unlock()
	err := c.write(KindResponse, a)
	in.exchange.finish(errRequestEnded)
	return err
}

// handleDone ends a request of the peer's that is answered.
func (c *Conn) handleDone(f Frame) error {
	done, err := Decode[Done](f, KindDone)
	if err != nil {
		return err
	}
	x, err := c.exchangeByID(done.ID)
	if err != nil {
		return err
	}
	if !x.ended.Load() { // ours are not open any more when they end
		return protocolError("the end of request %d before its answer", done.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, x.id)
	c.incoming.streams -= len(x.streams)
	return nil
}
