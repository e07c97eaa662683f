package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
)

// serverLog records the log of a server and wakes goroutines that wait for a
// line.
type serverLog struct {
	mu      sync.Mutex // guards what follows
	text    bytes.Buffer
	partial []byte
	lines   []logLine
	ended   bool
	changed chan struct{} // closed at each change, and replaced
}

// logLine is a JSON line of a log.
type logLine map[string]any

// hasMessage reports whether the line has this message.
func (l logLine) hasMessage(message string) bool { return l["msg"] == message }

// errorContains reports whether the error of the line contains text.
func (l logLine) errorContains(text string) bool {
	return strings.Contains(fmt.Sprint(l["error"]), text)
}

func newServerLog() *serverLog { return &serverLog{changed: make(chan struct{})} }

// Write appends a part of the log.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	l.partial = append(l.partial, p...)
	for {
		line, rest, whole := bytes.Cut(l.partial, []byte("\n"))
		if !whole {
			break
		}
		l.partial = rest
		var parsed logLine
		if json.Unmarshal(line, &parsed) == nil {
			l.lines = append(l.lines, parsed)
		}
	}
	l.wake()
	return len(p), nil
}

// finish marks the end of the log.
func (l *serverLog) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

func (l *serverLog) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find returns the first line that matches, or nil. It also returns whether the
// log has ended, and a channel that is closed at the next change.
func (l *serverLog) find(match func(logLine) bool) (logLine, bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if match(line) {
			return line, l.ended, l.changed
		}
	}
	return nil, l.ended, l.changed
}

// await waits for the first line that matches.
func (l *serverLog) await(t testing.TB, what string, match func(logLine) bool) logLine {
	t.Helper()
	limit := testenv.Context(t)
	for {
		line, ended, changed := l.find(match)
		if line != nil {
			return line
		}
		if ended {
			t.Fatalf("the server ended before it logged %s:\n%s", what, l)
		}
		select {
		case <-changed:
		case <-limit.Done():
			t.Fatalf("the server did not log %s:\n%s", what, l)
		}
	}
}
