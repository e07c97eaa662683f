package fake

import (
	"bytes"
	"context"
	"io"
	"slices"
	"time"
)

// minKeptLog is how many bytes of a log are kept at least.
const minKeptLog = 1 << 20

// log is the output of a main process. The container's lock guards it.
type log struct {
	text     []byte
	wipedLen int // how many of its bytes are from before the last Wipe
}

func (l *log) Write(b []byte) (int, error) {
	l.text = append(l.text, b...)
	if len(l.text) > 2*minKeptLog {
		l.wipedLen = max(0, l.wipedLen-(len(l.text)-minKeptLog))
		l.text = append(l.text[:0], l.text[len(l.text)-minKeptLog:]...)
	}
	return len(b), nil
}

// markWiped records that nothing runs and how much was printed before.
func (l *log) markWiped() { l.wipedLen = len(l.text) }

// tail returns the end of what was printed since the last Wipe, or since the
// first start if since is the zero time.
func (l *log) tail(since time.Time, tail int64) []byte {
	from := len(l.text) - int(min(max(tail, 0), int64(len(l.text))))
	if !since.IsZero() {
		from = max(from, l.wipedLen)
	}
	return slices.Clone(l.text[from:])
}

// Logs returns the last bytes of the output of the main process.
func (rt *Runtime) Logs(ctx context.Context, id string, since time.Time, tail int64) (io.ReadCloser, error) {
	var text []byte
	call := Call{Op: "logs", ID: id}
	err := rt.do(ctx, call, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		text = c.log.tail(since, tail)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// eof is a stdin without a writer.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
