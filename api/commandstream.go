package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/runtime"
)

// CommandLine is a line of the output of a command: its state at the beginning, a
// piece of output, or the end. One with an error is the last as well.
type CommandLine struct {
	Start  *CommandStart  `json:"start,omitempty" doc:"The first line."`
	Offset int64          `json:"offset,omitempty" doc:"Of the first byte of data, in the output of both streams; 0 if it is not there."`
	Stream string         `json:"stream,omitempty" enum:"stdout,stderr"`
	Data   []byte         `json:"data,omitempty" doc:"In base64."`
	End    *CommandResult `json:"end,omitempty" doc:"The last line of a command that has ended."`
	Error  *Problem       `json:"error,omitempty" doc:"The last line otherwise: continue after the last byte if the code is one of x-temporary-codes of Problem. All other codes are final."`
}

// CommandStart is the state of a command when it was attached to.
type CommandStart struct {
	ID            string `json:"id"`
	Offset        int64  `json:"offset" doc:"Of the first output that follows."`
	InputReceived int64  `json:"input_received" doc:"How many bytes of input it has received. Send what follows again, if any."`
	InputClosed   bool   `json:"input_closed,omitempty"`
	Created       bool   `json:"created,omitempty" doc:"This request has started it."`
	Terminal      bool   `json:"terminal,omitempty"`
}

func viewStart(c *access.Command) *CommandStart {
	s := c.Start()
	return &CommandStart{
		ID: c.ID, Offset: s.Offset, InputReceived: s.InputReceived, InputClosed: s.InputClosed, Created: s.Created, Terminal: s.Terminal,
	}
}

type outputIn struct {
	CommandPath
	After version `query:"after" doc:"The output from this offset on. What is before it counts as acknowledged. Default: all that is kept."`
}

func (a *API) commandOutput(ctx context.Context, in *outputIn) (*streamOut, error) {
	after := in.After.value
	if !in.After.isSet {
		err := a.control(ctx, in.CommandPath, func(c *access.Command) error { after = c.Start().Offset; return nil })
		if err != nil {
			return nil, err
		}
	}
	c, err := a.o.Access.Attach(ctx, in.ID, in.Command, after)
	if err != nil {
		return nil, err
	}
	return &streamOut{func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", typeNDJSON)
		w.Header().Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			_ = c.Close() // nothing was read of it
			return
		}
		lines := &outputLines{a: a, w: w, send: http.NewResponseController(w).Flush}
		if err := a.followOutput(hc.Context(), c, lines); err != nil {
			a.o.Log.DebugContext(hc.Context(), "output of a command ended", "request", requestID(hc.Context()), "error", err)
		}
	}}, nil
}

// piece is a piece of output, or what comes instead of one.
type piece struct {
	runtime.CommandOutput
	result *runtime.Result // of a command that has ended
	err    error
}

func (p piece) isLast() bool { return p.result != nil || p.err != nil }

// pieces is how many pieces of output wait for a slow client.
const pieces = 8

// maxBatch is how much output is written at once.
const maxBatch = 256 << 10

// outputWriter writes output in the form of one kind of connection.
type outputWriter interface {
	start(s *CommandStart)
	piece(ctx context.Context, p piece)
	heartbeat()
	// flush writes what the other methods have prepared.
	flush(ctx context.Context) error
}

// followOutput writes the output of a command until its end, and closes the
// attachment. It ends as well when the client leaves or the server stops.
func (a *API) followOutput(ctx context.Context, c *access.Command, w outputWriter) error {
	read, stop := make(chan piece, pieces), make(chan struct{})
	var reader errgroup.Group
	reader.Go(func() error { readOutput(c, read, stop); return nil })
	err := a.writeOutput(ctx, c, read, w)
	close(stop)
	err = errors.Join(err, c.Close()) // the reader's call returns
	return errors.Join(err, reader.Wait())
}

// readOutput sends the output of a command to the channel until its end, or until
// stop is closed.
func readOutput(c *access.Command, to chan<- piece, stop <-chan struct{}) {
	for {
		out, err := c.Next()
		p := piece{CommandOutput: out, err: err}
		switch {
		case err == nil:
			p.Data = bytes.Clone(out.Data)
		case errors.Is(err, io.EOF):
			result, err := c.Result()
			p.result, p.err = &result, err
		}
		select {
		case to <- p:
		case <-stop:
			return
		}
		if p.isLast() {
			return
		}
	}
}

func (a *API) writeOutput(ctx context.Context, c *access.Command, read <-chan piece, w outputWriter) error {
	heartbeat := time.NewTicker(a.o.Heartbeat)
	defer heartbeat.Stop()
	w.start(viewStart(c))
	for {
		if err := w.flush(ctx); err != nil {
			return err
		}
		select {
		case p := <-read:
			if writeBatch(ctx, p, read, w) {
				return w.flush(ctx)
			}
		case <-heartbeat.C:
			w.heartbeat()
		case <-a.closing:
			return nil
		case <-ctx.Done():
			return endOutput(ctx, w)
		}
	}
}

// endOutput writes why output ends before its command does, if its reader's
// credential has ended.
func endOutput(ctx context.Context, w outputWriter) error {
	cause := credentialEnd(ctx)
	if cause == nil {
		return context.Cause(ctx)
	}
	last := context.WithoutCancel(ctx)
	w.piece(last, piece{err: cause})
	return errors.Join(cause, w.flush(last))
}

// writeBatch writes a piece and those that wait behind it. It reports whether the
// last one was among them.
func writeBatch(ctx context.Context, p piece, read <-chan piece, w outputWriter) (last bool) {
	for size := 0; ; {
		w.piece(ctx, p)
		size += len(p.Data)
		if p.isLast() || size >= maxBatch {
			return p.isLast()
		}
		select {
		case p = <-read:
		default:
			return false
		}
	}
}

// outputLines writes lines of JSON.
type outputLines struct {
	a    *API
	w    http.ResponseWriter
	send func() error
	buf  bytes.Buffer
}

func (l *outputLines) start(s *CommandStart) { writeJSON(&l.buf, CommandLine{Start: s}) }
func (l *outputLines) heartbeat()            { l.buf.WriteByte('\n') }

func (l *outputLines) piece(ctx context.Context, p piece) {
	switch {
	case p.err != nil:
		writeJSON(&l.buf, CommandLine{Error: l.a.problem(ctx, p.err)})
	case p.result != nil:
		end := viewResult(*p.result)
		writeJSON(&l.buf, CommandLine{End: &end})
	default:
		// Written by hand: it is most of what a server does for a large output.
		line := append(l.buf.AvailableBuffer(), `{"offset":`...)
		line = strconv.AppendInt(line, p.Offset, 10)
		line = append(append(line, `,"stream":"`...), streamName(p.Stderr)...)
		line = base64.StdEncoding.AppendEncode(append(line, `","data":"`...), p.Data)
		l.buf.Write(append(line, "\"}\n"...))
	}
}

func streamName(isStderr bool) string {
	if isStderr {
		return "stderr"
	}
	return "stdout"
}

func (l *outputLines) flush(context.Context) error {
	if l.buf.Len() == 0 {
		return nil
	}
	if _, err := l.w.Write(l.buf.Bytes()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	l.buf.Reset()
	if err := l.send(); err != nil {
		return fmt.Errorf("flush output: %w", err)
	}
	return nil
}
