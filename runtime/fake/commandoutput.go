package fake

import (
	"io"
	"sync"

	"github.com/hostler/hostler/runtime"
)

// commandOutput is the output of a tenant's command, of both streams in the order
// in which it was written. The container's lock guards it.
type commandOutput struct {
	changed *sync.Cond
	pieces  []outputPiece // that are kept, in order
	start   int64         // offset of the first byte that is kept
	end     int64
	totals  [2]int64 // of stdout and stderr
	waiting int      // writers that are held back
}

type outputPiece struct {
	stderr bool
	data   []byte // never changed
}

// outputStream is one of the two streams of a command's output.
type outputStream struct {
	*commandOutput
	stderr bool
}

func (o *commandOutput) stream(stderr bool) io.Writer { return &outputStream{o, stderr} }

// Write adds what there is room for. The caller holds the lock, and waits for room.
func (s *outputStream) Write(b []byte) (int, error) {
	room := int(runtime.CommandBuffer - (s.end - s.start))
	b = b[:min(len(b), max(room, 0))]
	if len(b) == 0 {
		return 0, nil
	}
	s.pieces = append(s.pieces, outputPiece{s.stderr, append([]byte(nil), b...)})
	s.end += int64(len(b))
	s.totals[b2i(s.stderr)] += int64(len(b))
	s.changed.Broadcast()
	return len(b), nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// writeAll writes for a process until all is written or the process has exited.
// The caller holds the lock.
func (s *outputStream) writeAll(p *Proc, b []byte) (int, error) {
	written := 0
	for written < len(b) {
		n, _ := s.Write(b[written:]) // it has no error
		written += n
		if n > 0 {
			continue
		}
		s.waiting++
		s.changed.Wait()
		s.waiting--
		if p.dead {
			return written, io.ErrClosedPipe
		}
	}
	return written, nil
}

// next returns the first piece at or after an offset that is kept or was not
// written yet.
func (o *commandOutput) next(offset int64) (runtime.CommandOutput, bool) {
	at := o.start
	for _, p := range o.pieces {
		end := at + int64(len(p.data))
		if offset < end {
			return runtime.CommandOutput{Offset: offset, Stderr: p.stderr, Data: p.data[offset-at:]}, true
		}
		at = end
	}
	return runtime.CommandOutput{}, false
}

// acknowledge forgets what is before an offset.
func (o *commandOutput) acknowledge(offset int64) {
	offset = min(offset, o.end)
	for offset > o.start {
		first := &o.pieces[0]
		n := min(offset-o.start, int64(len(first.data)))
		if first.data = first.data[n:]; len(first.data) == 0 {
			o.pieces = o.pieces[1:]
		}
		o.start += n
	}
	o.changed.Broadcast()
}

// maxCommandInput bounds the input that a command has not read.
const maxCommandInput = 64 << 10

// commandInput is the stdin of a command's leader.
type commandInput struct {
	t *tenantCommand
	p *Proc
}

// Read waits for input, for its end, or for the end of the process.
func (in *commandInput) Read(b []byte) (int, error) {
	t, c := in.t, in.p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(t.input) == 0 {
		if t.closed || in.p.dead {
			return 0, io.EOF
		}
		c.changed.Wait()
	}
	n := copy(b, t.input)
	t.input = t.input[n:]
	c.changed.Broadcast()
	return n, nil
}
