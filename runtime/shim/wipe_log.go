package shim

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/runtime"
)

// LogEndLine is the line at which a log ends that a wipe marks.
func LogEndLine(mark string) string { return "hostler-shim: wiped " + mark }

// How long an engine may take to write down what was printed, how often it is
// asked, and for how many lines. A mark that is not among them when the other one
// has been for secondMarkTimeout is above them.
const (
	logTimeout         = 10 * time.Second
	logPollInterval    = 5 * time.Millisecond
	maxLogPollInterval = 100 * time.Millisecond
	logTailLines       = 1000
	secondMarkTimeout  = 200 * time.Millisecond
)

// tailer copies the last lines of a log.
type tailer func(ctx context.Context, lines int64, to io.Writer) error

// WipeWithLogMarks is Wipe for a backend whose engine writes down what was printed
// when it comes to it, and notes the time of that. At its end the program prints
// LogEndLine of new marks, which nobody in the container knows before, one on stdout
// and one on stderr. Until both were seen at the end of the log, something that
// was printed before may still come.
func (s *Session) WipeWithLogMarks(ctx context.Context, fence int64, tail tailer) error {
	timeout := fmt.Errorf("%w: what was printed is not in its log after %s", runtime.ErrWipeUnverified, logTimeout)
	var limit context.Context
	for {
		marks := []string{rand.Text(), rand.Text()}
		if _, err := s.call(ctx, "wipe", Request{Op: OpWipe, Fence: fence, Paths: marks}); err != nil {
			return err
		}
		if limit == nil {
			var cancel context.CancelFunc
			limit, cancel = context.WithTimeoutCause(ctx, logTimeout, timeout)
			defer cancel()
		}
		both, err := tail.waitForMarks(limit, marks)
		if both || err != nil {
			return err
		}
		// One stream was behind the other, and is not any more.
	}
}

// waitForMarks waits for two marks in a log, and reports whether it has seen both. It
// has not when one of them was followed by too much of the other stream.
func (tail tailer) waitForMarks(ctx context.Context, marks []string) (bool, error) {
	out, errOut := textMatcher{text: []byte(LogEndLine(marks[0]))}, textMatcher{text: []byte(LogEndLine(marks[1]))}
	var firstSeen time.Time // when the first of them was seen
	for interval := logPollInterval; ; interval = min(2*interval, maxLogPollInterval) {
		err := tail(ctx, logTailLines, io.MultiWriter(&out, &errOut))
		if (out.found || errOut.found) && firstSeen.IsZero() {
			firstSeen = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil:
			return false, fmt.Errorf("read the end of the log: %w", err)
		case out.found && errOut.found:
			return true, nil
		case !firstSeen.IsZero() && time.Since(firstSeen) >= secondMarkTimeout:
			return false, nil
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// textMatcher looks for a text in what is written to it.
type textMatcher struct {
	text  []byte
	found bool
	rest  []byte // the end of what was written, shorter than the text
}

func (f *textMatcher) Write(p []byte) (int, error) {
	if f.found {
		return len(p), nil
	}
	all := append(f.rest, p...)
	f.found = bytes.Contains(all, f.text)
	f.rest = append([]byte(nil), all[max(0, len(all)-len(f.text)+1):]...)
	return len(p), nil
}
