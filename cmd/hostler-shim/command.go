package main

import (
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// maxPendingInput bounds the input that a command has not read, in bytes, without
// what is in its pipe.
const maxPendingInput = 64 << 10

// commandKey identifies a command. One of another claim is another one.
type commandKey struct {
	fence int64
	id    string
}

// tenantCommand is a command with streams, from the request for it until it is
// forgotten.
type tenantCommand struct {
	key      commandKey
	nonce    string // of the request that created it
	internal bool
	args     []string // as listed
	created  time.Time
	terminal bool
	streams  commandStreams
	// environment is that of the main process, under the command's own.
	environment map[string]string

	ready chan struct{} // closed when it has started, or could not be
	done  chan struct{} // closed when nothing of it is left, or it could not be started

	// mu guards the fields below.
	mu       sync.Mutex
	changed  sync.Cond // of any of them
	worker   *commandWorker
	endGrace time.Duration // it is to end, at the latest after that; negative if not
	startErr error         // once ready is closed

	output  outputLog
	totals  [2]int64 // bytes of stdout and of stderr
	scratch []byte   // for reading output
	isOver  bool     // its processes are gone: nothing waits for room or input

	pending       []byte // input that was not written yet
	lastInput     byte   // the last byte of input
	inputReceived int64
	inputClosed   bool // by the client
	discardsInput bool // the command reads no more of it

	attached *attachment
	lost     bool // killAll killed its processes
	ended    *shim.CommandEnd
	endedAt  time.Time
	forgetAt time.Time // unless something is attached
	forget   *time.Timer
}

func newCommand(key commandKey, r *shim.CommandRequest, args []string) *tenantCommand {
	c := &tenantCommand{
		key: key, nonce: r.Nonce, internal: r.Internal, terminal: r.Terminal != nil, args: listedArgs(args), created: time.Now(),
		ready: make(chan struct{}), done: make(chan struct{}),
		endGrace: -1, inputClosed: !r.Input, discardsInput: !r.Input && r.Terminal == nil,
	}
	c.changed.L = &c.mu
	return c
}

// maxListedArgs bounds the arguments in a list of commands, in bytes.
const maxListedArgs = 1 << 10

// listedArgs returns arguments as they are listed: the beginning, with a mark
// where something is missing.
func listedArgs(args []string) []string {
	const mark = "…"
	kept, room := []string{}, maxListedArgs
	for _, arg := range args {
		if room -= len(arg) + 1; room < 0 {
			return append(kept, arg[:max(0, room+len(arg)+1-len(mark))]+mark)
		}
		kept = append(kept, arg)
	}
	return kept
}

// isRunning reports whether the command has not ended. One that could not be
// started has.
func (c *tenantCommand) isRunning() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// setReady records that the command has started, or why not.
func (c *tenantCommand) setReady(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startErr = err
	close(c.ready)
}

// failStart records that the command could not be started, with the reason.
func (c *tenantCommand) failStart(err error) {
	c.mu.Lock()
	if c.lost {
		err = lostResponse.Error.Err()
	}
	c.mu.Unlock()
	c.setReady(err)
	close(c.done)
}

// waitRoom waits until output may be read. It returns false when the command's
// processes are gone.
func (c *tenantCommand) waitRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.output.room() == 0 && !c.isOver {
		c.changed.Wait()
	}
	return !c.isOver
}

// keepOutput reads once from one of the streams. It reports whether the read
// would wait, and whether the stream has ended.
func (c *tenantCommand) keepOutput(read func(p []byte) (int, error), stderr bool) (waits, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := c.output.room()
	if room == 0 && !c.isOver {
		return false, false
	}
	if c.isOver { // what is left is bounded, and nothing will make room
		room = drainBufferSize
	}
	if c.scratch == nil {
		c.scratch = make([]byte, drainBufferSize)
	}
	n, err := read(c.scratch[:min(room, len(c.scratch))])
	if n > 0 {
		c.output.add(c.scratch[:n], stderr)
		c.totals[streamIndex(stderr)] += int64(n)
		c.changed.Broadcast()
		return false, false
	}
	return isWaiting(err), !isWaiting(err)
}

func streamIndex(stderr bool) int {
	if stderr {
		return 1
	}
	return 0
}

// feed writes the input until its end, or until the command reads no more.
func (c *tenantCommand) feed(to *os.File) {
	for {
		p, ends := c.nextInput()
		if len(p) == 0 {
			if ends {
				c.endInput(to)
			}
			return
		}
		n, err := to.Write(p)
		c.mu.Lock()
		c.pending = c.pending[min(n, len(c.pending)):] // there is none once the command has ended
		if err != nil {
			c.pending, c.discardsInput = nil, true
		}
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// nextInput waits for input. Without any, it returns whether the input has ended.
func (c *tenantCommand) nextInput() (p []byte, ends bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) == 0 && !c.inputClosed && !c.isOver {
		c.changed.Wait()
	}
	if c.isOver {
		return nil, false
	}
	return c.pending, c.inputClosed
}

// addInput adds input that begins at an offset, for an attachment. It waits for
// room. It returns false when the attachment has ended, and an error for a gap.
func (c *tenantCommand) addInput(a *attachment, offset int64, p []byte) (ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset > c.inputReceived {
		return false, errInvalidRequest
	}
	for p = p[min(c.inputReceived-offset, int64(len(p))):]; len(p) > 0; {
		switch room := maxPendingInput - len(c.pending); {
		case a.over:
			return false, nil
		case c.discardsInput || c.inputClosed:
			c.inputReceived += int64(len(p))
			return true, nil
		case room == 0:
			c.changed.Wait()
		default:
			n := min(room, len(p))
			c.pending = append(c.pending, p[:n]...)
			c.inputReceived += int64(n)
			c.lastInput = p[n-1]
			p = p[n:]
			c.changed.Broadcast()
		}
	}
	return !a.over, nil
}

// closeInput ends the input, unless the attachment has ended.
func (c *tenantCommand) closeInput(a *attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.over {
		c.inputClosed = true
		c.changed.Broadcast()
	}
}

// end records how the command ended. What it has written is in the log.
func (c *tenantCommand) end(result runtime.Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		err = lostResponse.Error.Err()
	}
	c.ended = &shim.CommandEnd{}
	if err != nil {
		c.ended.Error = shim.NewWireError(err)
		c.ended.Error.Detail = strings.ToValidUTF8(c.ended.Error.Detail[:min(len(c.ended.Error.Detail), maxListedArgs)], "")
	} else {
		result.Stdout, result.Stderr = runtime.Output{Total: c.totals[0]}, runtime.Output{Total: c.totals[1]}
		c.ended.Result = &result
	}
	c.scratch, c.pending, c.worker = nil, nil, nil
	c.discardsInput = true
	c.endedAt = time.Now()
	c.changed.Broadcast()
	close(c.done)
}

// status describes the command.
func (c *tenantCommand) status() runtime.CommandStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := runtime.CommandStatus{
		ID: c.key.id, Args: c.args, Terminal: c.terminal, Started: c.created, Attached: c.attached != nil,
		Output: c.output.end, Held: c.ended == nil && c.output.room() == 0,
	}
	if c.ended != nil {
		at := c.endedAt
		s.Ended, s.Result = &at, c.ended.Result
	}
	return s
}
