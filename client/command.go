package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Command is a command whose output is read and whose input is sent. Wait is for one
// goroutine, Send and CloseInput for another one; the other methods are for any.
type Command struct {
	ID string
	// OnLost is called when the connection that Wait reads from was lost, before it
	// connects again. nil does nothing.
	OnLost func(error)
	// LostTimeout bounds how long lost connections are made again without output and
	// heartbeats; 0 is 5 minutes.
	LostTimeout time.Duration

	c         *Client
	claim     string
	offset    int64 // of the next output
	acked     int64
	input     int64 // bytes of input that the command has received
	connected bool  // once
	isAlive   bool  // the last connection had a heartbeat
	lines     lineReader
}

// StartCommand starts a command in the container of a claim. It continues until it
// ends by itself, or with the claim, whatever becomes of this program.
func (c *Client) StartCommand(ctx context.Context, claim string, r CommandRequest) (*Command, error) {
	if r.ID == "" {
		r.ID = rand.Text() // a repeated call starts no second one
	}
	got, _, err := post[CommandStatus](ctx, c, execPath(claim), r.body(true))
	if err != nil {
		return nil, err
	}
	return &Command{ID: got.ID, c: c, claim: claim, connected: true}, nil
}

// AllKept is the offset of the first output that a container keeps.
const AllKept int64 = -1

// AttachCommand attaches to a command of a claim. Its output is read from the offset
// after on; what is before it is given up. The input continues after what was
// received.
func (c *Client) AttachCommand(ctx context.Context, claim, id string, after int64) (*Command, error) {
	cmd := &Command{ID: id, c: c, claim: claim, offset: after, acked: after}
	got, err := c.sendInput(ctx, claim, id, 0, nil, false)
	cmd.input = got.Received
	return cmd, err
}

// acknowledgeSize is how much output is acknowledged at once: half of what the
// container keeps.
const acknowledgeSize = 512 << 10

// errHeartbeat is the error of a stream on which nothing arrives.
var errHeartbeat = errors.New("no output and no heartbeat from the server")

// Wait writes the command's output until its end, and returns how it ended. Lost
// connections are made again, until ctx ends or LostTimeout has passed: no byte is lost
// or written twice. It returns the error of a writer, and an *Error when the server
// refuses to continue: its code is CodeAttachedElsewhere when another client has taken
// over, and CodeUnhealthy when the container has ended.
func (cmd *Command) Wait(ctx context.Context, stdout, stderr io.Writer) (CommandResult, error) {
	lost := cmd.newLoss()
	for {
		before := cmd.offset
		cmd.isAlive = false
		result, err := cmd.read(ctx, stdout, stderr)
		if err == nil {
			return result, nil
		}
		if ctx.Err() != nil {
			return result, context.Cause(ctx)
		}
		if stop, ok := errors.AsType[*stopError](err); ok {
			return result, stop.err
		}
		if cmd.offset > before || cmd.isAlive {
			lost.reset()
		}
		if !cmd.connected || lost.isFinal(err) {
			return result, err
		}
		if cmd.OnLost != nil {
			cmd.OnLost(err)
		}
		if err := lost.wait.Sleep(ctx); err != nil {
			return result, err
		}
	}
}

// read reads output through one connection, to the end of the command.
func (cmd *Command) read(ctx context.Context, stdout, stderr io.Writer) (CommandResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	query := url.Values{}
	if cmd.offset != AllKept {
		query.Set("after", strconv.FormatInt(cmd.offset, 10))
	}
	resp, err := cmd.c.doOnce(ctx, call{method: http.MethodGet, path: commandPath(cmd.claim, cmd.ID) + "/output", query: query})
	if err != nil {
		return CommandResult{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	cmd.connected = true
	alive := time.AfterFunc(readTimeout, func() { cancel(errHeartbeat) })
	defer alive.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		alive.Stop() // a writer may take its time
		cmd.isAlive = cmd.isAlive || len(lines.Bytes()) == 0
		if len(lines.Bytes()) > 0 {
			result, err := cmd.handleLine(ctx, lines.Bytes(), stdout, stderr)
			if err != nil || result != nil {
				return deref(result), err
			}
		}
		alive.Reset(readTimeout)
	}
	if err := lines.Err(); err != nil {
		return CommandResult{}, fmt.Errorf("read the output: %w", err)
	}
	return CommandResult{}, io.ErrUnexpectedEOF
}

func deref(r *CommandResult) CommandResult {
	if r == nil {
		return CommandResult{}
	}
	return *r
}

// handleLine handles a line. The result is that of the last one.
func (cmd *Command) handleLine(ctx context.Context, text []byte, stdout, stderr io.Writer) (*CommandResult, error) {
	line, err := cmd.lines.read(text)
	if err != nil {
		return nil, fmt.Errorf("read the output: %w", err)
	}
	switch {
	case line.Error != nil:
		return nil, line.Error
	case line.Start != nil:
		if cmd.offset == AllKept {
			cmd.offset, cmd.acked = line.Start.Offset, line.Start.Offset
		}
		return nil, nil
	case line.End != nil:
		_ = cmd.c.acknowledge(ctx, cmd.claim, cmd.ID, cmd.offset) // otherwise it is forgotten later
		return line.End, nil
	case len(line.Data) == 0:
		return nil, nil
	case line.Offset > cmd.offset:
		return nil, &stopError{fmt.Errorf("the output continues at %d, not at %d", line.Offset, cmd.offset)}
	}
	data := line.Data[min(cmd.offset-line.Offset, int64(len(line.Data))):]
	w := stdout
	if line.Stream == "stderr" {
		w = stderr
	}
	n, err := w.Write(data)
	cmd.offset += int64(n)
	if err != nil {
		return nil, &stopError{err}
	}
	return nil, cmd.acknowledgeSome(ctx)
}

// acknowledgeSome acknowledges what was read, when it is much, but for the last byte:
// the container forgets a command that has ended once all is acknowledged, and its
// result must arrive first.
func (cmd *Command) acknowledgeSome(ctx context.Context) error {
	if cmd.offset-cmd.acked < acknowledgeSize {
		return nil
	}
	if err := cmd.c.acknowledge(ctx, cmd.claim, cmd.ID, cmd.offset-1); err != nil {
		return err
	}
	cmd.acked = cmd.offset
	return nil
}

// maxInput bounds the input of one request.
const maxInput = 256 << 10

// ErrInputClosed is returned for input of a command that receives no more.
var ErrInputClosed = errors.New("the command receives no more input")

// Send sends input, and returns when the command's container has received it. Lost
// connections are made again, as by Wait.
func (cmd *Command) Send(ctx context.Context, p []byte) error {
	lost := cmd.newLoss()
	for len(p) > 0 {
		part := p[:min(len(p), maxInput)]
		got, err := cmd.c.sendInput(ctx, cmd.claim, cmd.ID, cmd.input, part, false)
		if err != nil {
			if err := lost.retry(ctx, err); err != nil {
				return err
			}
			continue
		}
		lost.reset()
		n := got.Received - cmd.input
		if n < 0 || n > int64(len(part)) {
			return fmt.Errorf("the command has received %d bytes of input, and %d were sent", got.Received, cmd.input+int64(len(part)))
		}
		p, cmd.input = p[n:], got.Received
		if got.Closed {
			return ErrInputClosed
		}
	}
	return nil
}

// CloseInput ends the input.
func (cmd *Command) CloseInput(ctx context.Context) error {
	lost := cmd.newLoss()
	for {
		got, err := cmd.c.sendInput(ctx, cmd.claim, cmd.ID, cmd.input, nil, true)
		if err == nil && got.Closed {
			return nil
		}
		if err == nil {
			lost.reset() // the command does not read
		}
		if err := lost.retry(ctx, err); err != nil {
			return err
		}
	}
}

// Resize changes the size of the terminal.
func (cmd *Command) Resize(ctx context.Context, size TerminalSize) error {
	return cmd.c.resizeCommand(ctx, cmd.claim, cmd.ID, size)
}

// Signal sends a signal such as SIGINT.
func (cmd *Command) Signal(ctx context.Context, name string) error {
	return cmd.c.SignalCommand(ctx, cmd.claim, cmd.ID, name)
}
