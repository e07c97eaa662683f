package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// serverLog takes what a server writes and wakes those who wait for a line.
type serverLog struct {
	mu      sync.Mutex // guards what follows
	text    bytes.Buffer
	partial []byte
	lines   []logLine
	ended   bool
	changed chan struct{} // closed with each change, and made anew
}

// logLine is one line, as JSON.
type logLine map[string]any

// hasMessage tells whether the line has this message.
func (l logLine) hasMessage(message string) bool { return l["msg"] == message }

// errorContains tells whether the error of the line has a text in it.
func (l logLine) errorContains(text string) bool {
	return strings.Contains(fmt.Sprint(l["error"]), text)
}

func newServerLog() *serverLog { return &serverLog{changed: make(chan struct{})} }

// Write takes a part of the log.
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

// finish says that nothing more will come.
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

// find returns the first line that matches, and else what to wait on for more.
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

// await returns the first line that matches as soon as it is written.
func (l *serverLog) await(t testing.TB, what string, match func(logLine) bool) logLine {
	t.Helper()
	deadline := time.After(waitTimeout)
	for {
		line, ended, changed := l.find(match)
		if line != nil {
			return line
		}
		if ended {
			t.Fatalf("the server ended before it wrote %s:\n%s", what, l)
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the server did not write %s within %s:\n%s", what, waitTimeout, l)
		}
	}
}
