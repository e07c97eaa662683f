package fake

import (
	"bytes"
	"context"
	"io"
	"slices"
)

// keptLog is how much of a log is kept at least.
const keptLog = 1 << 20

// log is what a main process has printed. The container's lock guards it.
type log []byte

func (l *log) Write(b []byte) (int, error) {
	*l = append(*l, b...)
	if len(*l) > 2*keptLog {
		*l = append((*l)[:0], (*l)[len(*l)-keptLog:]...)
	}
	return len(b), nil
}

// Logs gives the last bytes of what the main process has printed.
func (rt *Runtime) Logs(ctx context.Context, id string, tail int64) (io.ReadCloser, error) {
	var text []byte
	call := Call{Op: "logs", ID: id}
	err := rt.do(ctx, call, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		from := int64(len(c.log)) - min(max(tail, 0), int64(len(c.log)))
		text = slices.Clone(c.log[from:])
		return nil
	})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// eof is a stdin that nobody writes to.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
