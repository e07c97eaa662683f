package shim

import (
	"cmp"
	"errors"
	"sync/atomic"
)

// event is a message for a request of ours. response is nil for a progress
// message.
type event struct {
	state    ProgressState
	response *Response
}

// exchange is one request, of either end, with its streams. It exists until
// both ends have sent their last frame for it: the response and, if there are
// streams, the Done that confirms it.
type exchange struct {
	conn    *Conn
	id      uint64
	streams []*Stream

	// ended reports whether our last frame for it is sent. It is set with
	// conn.writeMu held, so that no frame follows.
	ended atomic.Bool

	// Only for requests of ours.
	op            Op
	events        chan event
	progressCount int  // guarded by conn.mu
	abandoned     bool // the caller no longer waits for it; guarded by conn.mu
}

func newExchange(c *Conn, id uint64, streams, window int) *exchange {
	x := &exchange{conn: c, id: id}
	for n := range streams {
		x.streams = append(x.streams, newStream(x, byte(n), window))
	}
	return x
}

// Stream returns the request's n-th stream, starting at 0.
func (x *exchange) Stream(n int) *Stream { return x.streams[n] }

// finish ends the streams for their users at this end.
func (x *exchange) finish(err error) {
	for _, s := range x.streams {
		s.finish(err)
	}
}

// Outgoing is a request of ours.
type Outgoing struct{ *exchange }

// Call sends a request with r.Streams streams. The caller must call Abandon
// when it is done.
func (c *Conn) Call(r Request) (Outgoing, error) {
	// The IDs are sent in order.
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	r.Window = c.windowOf(r)
	x, err := c.register(r)
	if err != nil {
		return Outgoing{}, err
	}
	r.ID = x.id
	if err := c.write(KindRequest, r); err != nil {
		c.unregister(x) // the peer has not received it, or the connection has ended
		return Outgoing{}, err
	}
	return Outgoing{x}, nil
}

// windowOf returns the window of a request's streams, 0 for Window: a peer without
// FeatureCommands knows no other one.
func (c *Conn) windowOf(r Request) int {
	if !c.Has(FeatureCommands) {
		return 0
	}
	return r.Window
}

// Notify sends a request that has no response.
func (c *Conn) Notify(r Request) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.write(KindRequest, r)
}

// register adds a request of ours and gives it an ID. It returns errTooManyOpen
// if the request would exceed the peer's limits.
func (c *Conn) register(r Request) (*exchange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, errConnLost
	}
	if !c.outgoing.fits(r.Streams, c.remote.limitsOf(r.Op)) {
		return nil, errTooManyOpen
	}
	c.lastSentID += 2
	x := newExchange(c, c.lastSentID, r.Streams, cmp.Or(r.Window, Window))
	x.op, x.events = r.Op, make(chan event, maxProgress+1)
	c.exchanges[x.id] = x
	c.outgoing.requests++
	c.outgoing.streams += r.Streams
	if _, ok := c.stream.(LivenessChecker); ok && c.livenessTimer == nil {
		c.scheduleCheck(minCheckInterval)
	}
	return x, nil
}

// unregister removes a request that was not sent.
func (c *Conn) unregister(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, x.id)
	c.outgoing.requests--
	c.outgoing.streams -= len(x.streams)
}

// Abandon ends the wait for the request. It resets the request's streams, if
// there are any, so that the peer notices. The request counts as open until the
// peer answers.
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

// handleProgress passes a progress message to the request's caller.
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
		return protocolError("too many progress messages for request %d", progress.ID)
	}
	x.events <- event{state: progress.State} // never blocks: the buffer has room
	return nil
}

// handleResponse passes a response to the request's caller. It is the peer's
// last message for the request.
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
		return protocolError("a response to the peer's own request")
	}
	c.mu.Lock()
	delete(c.exchanges, x.id)
	c.outgoing.requests--
	c.mu.Unlock()
	c.onResponse()
	response.limit(x.op)
	x.events <- event{response: &response} // never blocks: the buffer has room
	x.finish(errRequestEnded)
	if len(x.streams) > 0 {
		// The goroutine ends with the write, which has a timeout. The peer's
		// stream limit bounds the number of goroutines.
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
		return // the connection has ended
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outgoing.streams -= len(x.streams)
}

// Incoming is a request of the peer.
type Incoming struct {
	*exchange
	Request Request
}

// OneWay reports whether the request has no response.
func (in *Incoming) OneWay() bool { return in.id == 0 }

// Closed returns a channel that is closed when the connection ends.
func (in *Incoming) Closed() <-chan struct{} { return in.conn.closed }

// handleRequest passes a request of the peer to the handler.
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
	if r.Run != nil && r.Run.Invalid() != "" {
		return protocolError("a command: %s", r.Run.Invalid())
	}
	if r.ID == 0 {
		if r.Streams != 0 {
			return protocolError("a one-way request with streams")
		}
		return c.handle(&Incoming{exchange: newExchange(c, 0, 0, 0), Request: r})
	}
	if r.Window < 0 || r.Window > Window || r.Window > 0 && r.Window < minWindow {
		return protocolError("a request with a window of %d bytes", r.Window)
	}
	x := newExchange(c, r.ID, r.Streams, cmp.Or(c.windowOf(r), Window))
	if err := c.registerIncoming(x); err != nil {
		return err
	}
	return c.handle(&Incoming{exchange: x, Request: r})
}

// registerIncoming adds a request of the peer.
func (c *Conn) registerIncoming(x *exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return errConnLost
	case x.id%2 != c.remote.firstID%2 || x.id <= c.lastReceivedID:
		return protocolError("request ID %d after %d", x.id, c.lastReceivedID)
	case !c.incoming.fits(len(x.streams), c.local):
		return protocolError("more than %d requests or %d streams", c.local.maxRequests, c.local.maxStreams)
	}
	c.lastReceivedID = x.id
	c.exchanges[x.id] = x
	c.incoming.requests++
	c.incoming.streams += len(x.streams)
	return nil
}

// SendProgress sends a progress message for the request.
func (in *Incoming) SendProgress(state ProgressState) error {
	c := in.conn
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if in.ended.Load() {
		return errRequestEnded
	}
	return c.write(KindProgress, Progress{ID: in.id, State: state})
}

// Respond ends the request. Only the first response counts. Unread bytes of the
// streams are dropped.
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
	if errors.Is(err, errTooLarge) { // the peer would wait for an answer
		err = c.write(KindResponse, Response{ID: in.id, Error: NewWireError(err)})
	}
	in.exchange.finish(errRequestEnded)
	return err
}

// handleDone ends an answered request of the peer.
func (c *Conn) handleDone(f Frame) error {
	done, err := Decode[Done](f, KindDone)
	if err != nil {
		return err
	}
	x, err := c.exchangeByID(done.ID)
	if err != nil {
		return err
	}
	if !x.ended.Load() { // our own requests are no longer registered at their end
		return protocolError("done message for request %d before its response", done.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, x.id)
	c.incoming.streams -= len(x.streams)
	return nil
}
