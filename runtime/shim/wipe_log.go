package shim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/runtime"
)

// LogEndLine returns the line that marks the end of a log at a wipe.
func LogEndLine(mark string) string { return "hostler-shim: wiped " + mark }

// NewLogMark returns a mark that no process in the container knows in advance and
// that only a server can create.
func NewLogMark(key []byte) string {
	text := rand.Text()
	return text + "." + logMarkProof(key, text)
}

func logMarkProof(key []byte, text string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hostler log mark " + text))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func isLogMark(key, mark []byte) bool {
	text, proof, ok := bytes.Cut(mark, []byte("."))
	return ok && len(text) <= 64 && hmac.Equal(proof, []byte(logMarkProof(key, string(text))))
}

// AfterLastWipe returns what is in a log after the marks of the last wipe, and
// whether it has such marks. The position in the log counts, not the time of a
// line: the clocks of the engine and of the server that has wiped the container
// may differ. Lines that a tenant prints are not mistaken for marks.
func AfterLastWipe(key, log []byte) ([]byte, bool) {
	prefix := []byte(LogEndLine(""))
	for end := len(log); ; {
		at := bytes.LastIndex(log[:end], prefix)
		if at < 0 {
			return log, false
		}
		mark, rest, _ := bytes.Cut(log[at+len(prefix):], []byte("\n"))
		if isLogMark(key, mark) {
			return rest, true
		}
		end = at
	}
}

// How long an engine may take to write printed lines to its log, how often the
// log is read, and how many lines are read. If one mark was found and the other
// one was not for secondMarkTimeout, the other one is above these lines.
const (
	logTimeout         = 10 * time.Second
	logPollInterval    = 5 * time.Millisecond
	maxLogPollInterval = 100 * time.Millisecond
	logTailLines       = 1000
	secondMarkTimeout  = 200 * time.Millisecond
)

// tailer copies the last lines of a log.
type tailer func(ctx context.Context, lines int64, to io.Writer) error

// WipeWithLogMarks is Wipe for a backend whose engine writes printed lines to
// its log with a delay and with the time of writing. At the end of the wipe,
// the program prints LogEndLine with two new marks, one on stdout and one on
// stderr. No process in the container knows the marks in advance. Until both
// are at the end of the log, lines printed earlier may still arrive.
func (s *Session) WipeWithLogMarks(ctx context.Context, fence int64, tail tailer) error {
	timeout := fmt.Errorf("%w: printed lines are not in its log after %s", runtime.ErrWipeUnverified, logTimeout)
	var limit context.Context
	for {
		marks := []string{NewLogMark(s.key), NewLogMark(s.key)}
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
		// One stream was behind the other one, and has now caught up.
	}
}

// waitForMarks waits for two marks in a log and reports whether it has found
// both. It returns false if one mark was followed by too many lines of the
// other stream.
func (tail tailer) waitForMarks(ctx context.Context, marks []string) (bool, error) {
	out, errOut := textMatcher{text: []byte(LogEndLine(marks[0]))}, textMatcher{text: []byte(LogEndLine(marks[1]))}
	var firstSeen time.Time // when the first mark was found
	for interval := logPollInterval; ; interval = min(2*interval, maxLogPollInterval) {
		err := tail(ctx, logTailLines, io.MultiWriter(&out, &errOut))
		if (out.found || errOut.found) && firstSeen.IsZero() {
			firstSeen = time.Now()
		}
		switch {
		case out.found && errOut.found: // however long it took
			return true, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil:
			return false, fmt.Errorf("read the end of the log: %w", err)
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

// textMatcher searches for a text in what is written to it.
type textMatcher struct {
	text  []byte
	found bool
	rest  []byte // the end of what was written, shorter than text
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
