package shim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
)

// detachTimeout is how long a program may take to confirm that an attachment which
// has received everything was closed.
const detachTimeout = 10 * time.Second

// errDetached is the error of the calls on an attachment after Close.
var errDetached = errors.New("attachment to the command is closed")

// commandStream is an attachment to a command. It implements
// runtime.CommandStream.
type commandStream struct {
	session *Session
	conn    *sessionConn
	out     Outgoing
	start   runtime.CommandStart
	control bool           // see runtime.ControlOnly
	reader  *MessageReader // only for the caller of Next
	over    error          // returned by every further Next

	received atomic.Int64 // the offset after what Next has returned

	sendMu       sync.Mutex // guards writing to CommandStream, and the field below
	acknowledged int64

	inputMu sync.Mutex // guards writing to CommandInputStream, and the fields below
	sent    int64      // the offset after the input that was sent
	closed  bool       // the input is

	// mu guards the fields below. It is never held during I/O.
	mu       sync.Mutex
	response *Response
	end      *CommandEnd
	detached bool
}

// attach sends a request for a command and waits for its first message.
func (s *Session) attach(ctx context.Context, c *sessionConn, r Request) (*commandStream, error) {
	if !c.Has(FeatureCommands) {
		return nil, runtime.ErrUnsupported
	}
	out, err := c.Call(r)
	if errors.Is(err, errTooLarge) {
		return nil, &runtime.StartError{Reason: runtime.StartBadInput, Detail: "the command is too large"}
	}
	if err != nil {
		return nil, err
	}
	a := &commandStream{session: s, conn: c, out: out, acknowledged: r.Command.After}
	a.reader = NewMessageReader(out.Stream(CommandStream), MessageStart, MessageOutput, MessageEnd)
	if err := a.waitStart(ctx, r.Command.After); err != nil {
		out.Abandon()
		return nil, err
	}
	s.responsiveness.recordResponse()
	return a, nil
}

// waitStart receives the state of the command.
func (a *commandStream) waitStart(ctx context.Context, after int64) error {
	stop := context.AfterFunc(ctx, func() { a.out.Stream(CommandStream).Reset(context.Cause(ctx)) })
	defer stop()
	defer a.startWatchdog().Stop()
	kind, body, err := a.reader.Next()
	if err != nil {
		return a.streamError(err)
	}
	start, err := decodeMessage[CommandStart](body)
	if err == nil && (kind != MessageStart || start.Offset != after && after != runtime.ControlOnly || start.Offset < 0 || start.InputReceived < 0) {
		err = protocolError("the state of a command: %+v", start)
	}
	if err != nil {
		return a.violation(err)
	}
	a.start = runtime.CommandStart(start)
	a.sent = start.InputReceived
	a.received.Store(start.Offset)
	if after == runtime.ControlOnly {
		a.control = true
		a.received.Store(math.MaxInt64) // another attachment receives the output
	}
	return nil
}

// startWatchdog limits how long the program may take for what it does at once.
func (a *commandStream) startWatchdog() *time.Timer {
	since := time.Now()
	return time.AfterFunc(a.session.responsiveness.timeout, func() {
		a.out.Stream(CommandStream).Reset(a.session.requestTimedOut(since))
	})
}

// violation ends the connection of a program that violates the protocol.
func (a *commandStream) violation(err error) error {
	a.conn.fail(err)
	return fmt.Errorf("%w: %w: %w", runtime.ErrUnavailable, errConnLost, err)
}

// streamError returns why a stream of the attachment ended.
func (a *commandStream) streamError(err error) error {
	response, detached := a.outcome()
	switch {
	case errors.Is(err, ErrProtocol):
		return a.violation(err)
	case detached:
		return errDetached
	case response != nil && response.Error != nil:
		return response.Error.Err()
	case errors.Is(err, errConnLost):
		return fmt.Errorf("%w: %w", runtime.ErrUnavailable, errConnLost)
	case errors.Is(err, io.EOF) || errors.Is(err, errRequestEnded):
		return a.violation(protocolError("an attachment without the end of its command"))
	}
	return err
}

// mayChange returns an error if nothing more can be sent. The streams of a request
// that was answered end one after the other, so that one of them does not show it.
func (a *commandStream) mayChange() error {
	if err := a.session.mayChange(); err != nil {
		return err
	}
	if response, _ := a.outcome(); response != nil {
		return a.streamError(errRequestEnded)
	}
	return nil
}

// outcome returns the program's response, if there is one.
func (a *commandStream) outcome() (response *Response, detached bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.response == nil {
		select {
		case ev := <-a.out.events:
			a.response = ev.response // a progress message means nothing here
			continue
		default:
		}
		break
	}
	return a.response, a.detached
}

// Start implements runtime.CommandStream.
func (a *commandStream) Start() runtime.CommandStart { return a.start }

// Next implements runtime.CommandStream.
func (a *commandStream) Next() (runtime.CommandOutput, error) {
	if a.over != nil {
		return runtime.CommandOutput{}, a.over
	}
	output, err := a.next()
	a.over = err
	return output, err
}

func (a *commandStream) next() (runtime.CommandOutput, error) {
	kind, body, err := a.reader.Next()
	if err != nil {
		return runtime.CommandOutput{}, a.streamError(err)
	}
	if kind == MessageOutput {
		output, err := a.output(body)
		if err != nil {
			err = a.violation(err)
		}
		return output, err
	}
	end, err := decodeMessage[CommandEnd](body)
	if err == nil && (kind != MessageEnd || (end.Result == nil) == (end.Error == nil)) {
		err = protocolError("no end of a command")
	}
	if err != nil {
		return runtime.CommandOutput{}, a.violation(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = &end
	return runtime.CommandOutput{}, io.EOF
}

// output returns the output in a message.
func (a *commandStream) output(body []byte) (runtime.CommandOutput, error) {
	offset, rest, err := ParseOffset(body)
	if want := a.received.Load(); err == nil && (offset != want || rest[0] > 1) {
		err = protocolError("output at %d, want %d", offset, want)
	}
	if err != nil {
		return runtime.CommandOutput{}, err
	}
	a.received.Add(int64(len(rest) - 1))
	return runtime.CommandOutput{Offset: offset, Stderr: rest[0] == 1, Data: rest[1:]}, nil
}

// Result implements runtime.CommandStream.
func (a *commandStream) Result() (runtime.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.end == nil:
		return runtime.Result{}, errors.New("the command has not ended")
	case a.end.Error != nil:
		return runtime.Result{}, a.end.Error.Err()
	}
	return withoutOutput(*a.end.Result), nil
}

// Acknowledge implements runtime.CommandStream.
func (a *commandStream) Acknowledge(offset int64) error {
	if received := a.received.Load(); offset > received {
		return fmt.Errorf("acknowledge output up to %d: only %d bytes were received", offset, received)
	}
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	if offset <= a.acknowledged {
		return nil
	}
	a.acknowledged = offset
	return a.send(MessageAcknowledge, OffsetBytes(offset))
}

// Resize implements runtime.CommandStream.
func (a *commandStream) Resize(size runtime.TerminalSize) error {
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	body := binary.BigEndian.AppendUint16(nil, size.Rows)
	return a.send(MessageResize, binary.BigEndian.AppendUint16(body, size.Columns))
}

// Signal implements runtime.CommandStream.
func (a *commandStream) Signal(name string) error {
	number, err := runtime.ParseSignal(name)
	if err != nil {
		return err
	}
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	return a.send(MessageSignal, []byte{byte(number)})
}

// send sends a message that the program receives at once, whatever the command
// does. The caller holds sendMu.
func (a *commandStream) send(kind MessageKind, body []byte) error {
	if err := a.mayChange(); err != nil {
		return err
	}
	defer a.startWatchdog().Stop()
	if err := WriteMessage(a.out.Stream(CommandStream), kind, body); err != nil {
		return a.streamError(err)
	}
	return nil
}

// Input implements runtime.CommandStream.
func (a *commandStream) Input(offset int64, p []byte) error {
	if err := a.mayChange(); err != nil {
		return err
	}
	a.inputMu.Lock()
	defer a.inputMu.Unlock()
	switch {
	case a.closed:
		return errors.New("input after its end")
	case offset < 0 || offset > a.sent:
		return fmt.Errorf("input at %d: it continues at %d", offset, a.sent)
	}
	for p = p[min(a.sent-offset, int64(len(p))):]; len(p) > 0; {
		piece := p[:min(len(p), MaxCommandData)]
		if err := WriteMessage(a.out.Stream(CommandInputStream), MessageInput, OffsetBytes(a.sent), piece); err != nil {
			return a.streamError(err)
		}
		a.sent += int64(len(piece))
		p = p[len(piece):]
	}
	return nil
}

// CloseInput implements runtime.CommandStream.
func (a *commandStream) CloseInput() error {
	if err := a.mayChange(); err != nil {
		return err
	}
	a.inputMu.Lock()
	defer a.inputMu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	if err := a.out.Stream(CommandInputStream).CloseWrite(); err != nil {
		return a.streamError(err)
	}
	return nil
}

// Close implements runtime.CommandStream. It ends calls in progress.
func (a *commandStream) Close() error {
	a.mu.Lock()
	complete := a.end != nil && !a.detached
	first := !a.detached
	a.detached = true
	a.mu.Unlock()
	if a.control && first {
		a.closeControl()
	}
	if complete && a.closeComplete() {
		time.AfterFunc(detachTimeout, a.out.Abandon) // does nothing once the program has confirmed it
		return nil
	}
	a.out.Abandon()
	return nil
}

// closeControl returns when the program has handled what was sent, unless that is
// input for which there is no room: an attachment that is abandoned may lose it.
func (a *commandStream) closeControl() {
	if !a.inputMu.TryLock() {
		return
	}
	defer a.inputMu.Unlock()
	if !a.sendMu.TryLock() {
		return
	}
	defer a.sendMu.Unlock()
	if a.out.Stream(CommandStream).CloseWrite() != nil {
		return
	}
	defer time.AfterFunc(detachTimeout, a.out.Abandon).Stop()
	_, _, _ = a.reader.Next() // the response ends the stream
}

// closeComplete ends the stream of an attachment that has received and
// acknowledged everything: the program may forget the command. It returns false if
// that is not so.
func (a *commandStream) closeComplete() bool {
	if !a.sendMu.TryLock() {
		return false
	}
	defer a.sendMu.Unlock()
	return a.acknowledged == a.received.Load() && a.out.Stream(CommandStream).CloseWrite() == nil
}
