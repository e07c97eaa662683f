package access

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/runtime"
)

// reconnects are the waits after a lost connection to a container.
var reconnects = backoff.Policy{Min: 50 * time.Millisecond, Max: 2 * time.Second, Jitter: 0.2}

// maxReconnects bounds how often in a row a connection is lost until the command of
// a waiting caller is given up.
const maxReconnects = 12

// Run runs a command to its end and returns how it ended, with what is kept of its
// output. A caller who leaves ends the command, as its timeout does.
func (s *Service) Run(ctx context.Context, claimID string, r CommandRequest, stdin []byte) (id string, result runtime.Result, err error) {
	if len(stdin) > runtime.MaxStdin {
		return "", result, invalidf("stdin", "is longer than %d bytes", runtime.MaxStdin)
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultRunTimeout
	}
	r.Input = len(stdin) > 0
	g, err := s.Enter(ctx, claimID)
	if err != nil {
		return "", result, err
	}
	c, err := s.start(ctx, g, r)
	if err != nil {
		return "", result, err
	}
	f := foreground{s: s, g: g, stdin: stdin, offset: c.Start().Offset}
	result, err = f.run(ctx, c)
	if err != nil && !errors.Is(err, runtime.ErrAttachedElsewhere) && !errors.Is(err, runtime.ErrContainerExited) {
		s.end(ctx, g, c.ID)
	}
	return c.ID, result, err
}

// foreground is a command whose caller waits for its end.
type foreground struct {
	s              *Service
	g              Grant
	stdin          []byte
	offset         int64 // of the next output
	stdout, stderr runtime.Capture
}

// run follows a command to its end, through lost connections.
func (f *foreground) run(ctx context.Context, c *Command) (runtime.Result, error) {
	wait := reconnects.Retries()
	for lost := 0; ; {
		before := f.offset
		result, err := f.follow(ctx, c)
		switch {
		case ctx.Err() != nil:
			return result, context.Cause(ctx)
		case !errors.Is(err, runtime.ErrUnavailable):
			return result, err
		case f.offset > before:
			lost = 0
			wait.Reset()
		}
		for again := (*Command)(nil); again == nil; {
			if lost++; lost > maxReconnects {
				return result, err
			}
			if slept := wait.Sleep(ctx); slept != nil {
				return result, slept
			}
			again, err = f.s.Attach(ctx, f.g.Claim.ID, c.ID, f.offset)
			if err != nil && !errors.Is(err, runtime.ErrUnavailable) {
				return result, err
			}
			if again != nil {
				c = again
			}
		}
	}
}

// follow sends a command's input and reads its output until its end. It closes the
// attachment.
func (f *foreground) follow(ctx context.Context, c *Command) (runtime.Result, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // Next returns
	defer stop()
	var input errgroup.Group
	input.Go(func() error { return sendInput(c, f.stdin) })
	result, err := f.read(c)
	err = errors.Join(err, c.Close())
	_ = input.Wait() // a lost connection is Next's error too, and a command may leave its input
	return result, err
}

// inputSize is how much input is sent at once.
const inputSize = 32 << 10

// sendInput sends what the command has not received, and ends its input.
func sendInput(c *Command, stdin []byte) error {
	start := c.Start()
	if len(stdin) == 0 || start.InputClosed {
		return nil
	}
	offset := min(start.InputReceived, int64(len(stdin)))
	for part := range slices.Chunk(stdin[offset:], inputSize) {
		if err := c.Input(offset, part); err != nil {
			return err
		}
		offset += int64(len(part))
	}
	return c.CloseInput()
}

// acknowledgeSize is how much output is acknowledged at once: far less than the
// container keeps.
const acknowledgeSize = runtime.CommandBuffer / 8

// read reads output until the command has ended.
func (f *foreground) read(c *Command) (runtime.Result, error) {
	acknowledged := f.offset
	for {
		out, err := c.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return runtime.Result{}, err
		}
		f.take(out)
		if f.offset-acknowledged < acknowledgeSize {
			continue
		}
		if err := c.Acknowledge(f.offset); err != nil {
			return runtime.Result{}, err
		}
		acknowledged = f.offset
	}
	result, err := c.Result()
	result.Stdout, result.Stderr = f.stdout.Output(), f.stderr.Output()
	_ = c.Acknowledge(f.offset) // otherwise the container forgets the command later
	return result, err
}

// take keeps output that was not received before.
func (f *foreground) take(out runtime.CommandOutput) {
	data := out.Data[min(max(f.offset-out.Offset, 0), int64(len(out.Data))):]
	f.offset = max(f.offset, out.Offset+int64(len(out.Data)))
	if out.Stderr {
		f.stderr.Write(data) //nolint:errcheck // it never fails
		return
	}
	f.stdout.Write(data) //nolint:errcheck // it never fails
}
