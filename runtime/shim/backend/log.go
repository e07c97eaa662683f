package backend

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/hostler/hostler/runtime/shim"
)

// LogPart is a part of a container's log, at its end.
type LogPart struct {
	Lines   int64     // at most that many
	Since   time.Time // printed then or later by the engine's clock; zero for any time
	Current bool      // of the process 1 that runs, also if that waits for its start
}

// Logs implements runtime.Observer.Logs.
func (c Containers) Logs(ctx context.Context, id string, since time.Time, tail int64) (io.ReadCloser, error) {
	text, err := c.logs(ctx, id, since, tail)
	if err != nil {
		return nil, wrap(err, "read the log of the container %s", id)
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

func (c Containers) logs(ctx context.Context, id string, since time.Time, tail int64) ([]byte, error) {
	text, err := c.logEnd(ctx, id, time.Time{}, tail)
	if err != nil || since.IsZero() {
		return text, err
	}
	if rest, ok := shim.AfterLastWipe(shim.DeriveKey(c.options.Secret, id), text); ok {
		return rest, nil
	}
	// The marks are above the tail or in an earlier log, or an older server has
	// wiped the container.
	return c.logEnd(ctx, id, since, tail)
}

// logEnd returns the last tail bytes of a log.
func (c Containers) logEnd(ctx context.Context, id string, since time.Time, tail int64) ([]byte, error) {
	buf := tailBuffer{limit: max(0, int(tail))}
	// An engine counts lines. That many lines hold at least that many bytes.
	if err := c.options.CopyLog(ctx, id, LogPart{Lines: max(0, tail), Since: since}, &buf); err != nil {
		return nil, err
	}
	return buf.bytes(), nil
}

// tailBuffer keeps the last limit bytes of what is written to it, in memory of
// at most twice that.
type tailBuffer struct {
	limit int
	data  []byte
}

func (l *tailBuffer) Write(p []byte) (int, error) {
	l.data = append(l.data, p[max(0, len(p)-l.limit):]...)
	if len(l.data) > 2*l.limit {
		l.data = append(l.data[:0], l.bytes()...)
	}
	return len(p), nil
}

func (l *tailBuffer) bytes() []byte { return l.data[max(0, len(l.data)-l.limit):] }
