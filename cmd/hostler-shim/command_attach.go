package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// attachment is a connection of a server to a command.
type attachment struct {
	command *tenantCommand
	in      *shim.Incoming
	// control reports whether it has no output: see runtime.ControlOnly.
	control bool

	// The fields below are guarded by command.mu.
	position int64 // of the next output to send
	told     bool  // the end was sent
	over     bool
	err      error // why it is over
}

// attach takes the place of an earlier attachment. What is before the offset
// after is acknowledged.
func (c *tenantCommand) attach(in *shim.Incoming) (*attachment, shim.CommandStart, error) {
	r := in.Request.Command
	c.mu.Lock()
	defer c.mu.Unlock()
	start := shim.CommandStart{
		Offset: r.After, InputReceived: c.inputReceived, InputClosed: c.inputClosed || c.ended != nil,
		Created: r.Nonce != "" && r.Nonce == c.nonce, Terminal: c.terminal,
	}
	if r.After == runtime.ControlOnly {
		start.Offset = c.output.start
		return &attachment{command: c, in: in, control: true}, start, nil
	}
	if r.After < c.output.start || r.After > c.output.end {
		return nil, shim.CommandStart{}, fmt.Errorf("%w: it has the output from %d to %d, not from %d",
			runtime.ErrOutputLost, c.output.start, c.output.end, r.After)
	}
	c.endAttachment(runtime.ErrAttachedElsewhere)
	c.output.release(r.After)
	a := &attachment{command: c, in: in, position: r.After}
	c.attached = a
	c.changed.Broadcast()
	return a, start, nil
}

// endAttachment ends the attachment, if there is one. The caller holds mu.
func (c *tenantCommand) endAttachment(reason error) {
	a := c.attached
	if a == nil {
		return
	}
	a.over, a.err, c.attached = true, reason, nil
	c.changed.Broadcast()
	// The sender may wait for a peer that does not read. The goroutine ends with the
	// write, which has a timeout.
	go respond(a.in, shim.Response{}, reason)
}

// detach ends this attachment, unless that has happened. The command may be
// forgotten if its client has everything.
func (a *attachment) detach(reason error) (detached, forget bool) {
	c := a.command
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.over {
		return false, false
	}
	a.over, a.err = true, reason
	if !a.control {
		c.attached = nil
	}
	c.changed.Broadcast()
	return true, errors.Is(reason, io.EOF) && a.told && c.output.size() == 0
}

// serve sends the output until the attachment ends.
func (a *attachment) serve() error {
	if a.control {
		return a.waitOver()
	}
	stream, buf := a.in.Stream(shim.CommandStream), make([]byte, shim.MaxCommandData)
	for {
		offset, n, stderr, err := a.nextOutput(buf)
		if err != nil {
			return err
		}
		if n == 0 {
			return a.sendEnd()
		}
		if err := shim.WriteMessage(stream, shim.MessageOutput, shim.OutputHeader(offset, stderr), buf[:n]); err != nil {
			return err
		}
	}
}

// nextOutput waits for output. There is none when the command has ended.
func (a *attachment) nextOutput(buf []byte) (offset int64, n int, stderr bool, err error) {
	c := a.command
	c.mu.Lock()
	defer c.mu.Unlock()
	for !a.over && a.position == c.output.end && c.ended == nil {
		c.changed.Wait()
	}
	switch {
	case a.over:
		return 0, 0, false, a.err
	case a.position < c.output.start:
		return 0, 0, false, runtime.ErrOutputLost
	}
	offset = a.position
	n, stderr = c.output.read(offset, buf)
	a.position += int64(n)
	return offset, n, stderr, nil
}

// sendEnd sends how the command ended, and waits for the end of the attachment.
func (a *attachment) sendEnd() error {
	c := a.command
	c.mu.Lock()
	end, over := *c.ended, a.over
	a.told = true
	c.mu.Unlock()
	if over {
		return a.err
	}
	if err := shim.WriteJSONMessage(a.in.Stream(shim.CommandStream), shim.MessageEnd, end); err != nil {
		return err
	}
	return a.waitOver()
}

// waitOver waits for the end of the attachment.
func (a *attachment) waitOver() error {
	c := a.command
	c.mu.Lock()
	defer c.mu.Unlock()
	for !a.over {
		c.changed.Wait()
	}
	return a.err
}

// receive handles what the server sends, until the attachment ends. It returns
// io.EOF if the server has closed it.
func (a *attachment) receive() error {
	reader := shim.NewMessageReader(a.in.Stream(shim.CommandStream), shim.MessageAcknowledge, shim.MessageResize, shim.MessageSignal)
	for {
		kind, body, err := reader.Next()
		if err != nil {
			return err
		}
		switch kind {
		case shim.MessageAcknowledge:
			err = a.acknowledge(body)
		case shim.MessageResize:
			a.command.resize(shim.ParseSize(body))
		default:
			a.command.signal(int(body[0]))
		}
		if err != nil {
			return err
		}
	}
}

func (a *attachment) acknowledge(body []byte) error {
	offset, _, err := shim.ParseOffset(body)
	if err != nil {
		return err
	}
	c := a.command
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.over {
		return a.err
	}
	sent := a.position
	if a.control {
		sent = c.output.end
	}
	if offset > sent {
		return errInvalidRequest
	}
	c.output.release(offset)
	c.changed.Broadcast()
	return nil
}

// receiveInput handles the input that the server sends. It returns nil at the end
// of the input.
func (a *attachment) receiveInput() error {
	reader := shim.NewMessageReader(a.in.Stream(shim.CommandInputStream), shim.MessageInput)
	for {
		_, body, err := reader.Next()
		if err != nil {
			return err
		}
		offset, data, err := shim.ParseOffset(body)
		if err != nil {
			return err
		}
		if ok, err := a.command.addInput(a, offset, data); !ok {
			return err
		}
	}
}
