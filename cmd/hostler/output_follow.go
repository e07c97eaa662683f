package main

import (
	"strings"

	"github.com/hostler/hostler/client"
)

// attemptFollower finds what an attempt of a run has printed beyond what was shown.
type attemptFollower struct{ stdout, stderr outputFollower }

// advance returns what was added to both streams, and whether something between was
// lost.
func (f *attemptFollower) advance(r client.Run) (stdout, stderr []byte, lost bool) {
	out, lostOut := f.stdout.advance(r.Stdout)
	err, lostErr := f.stderr.advance(r.Stderr)
	return []byte(out), []byte(err), lostOut || lostErr
}

// outputFollower finds what a stream has beyond what was shown. The server returns of
// it what is kept: all, or its beginning and its end.
type outputFollower struct {
	text  string // what was shown last: all, or the end
	cut   bool   // text is the end
	total int64  // bytes of the stream
}

// advance returns what was added, and whether something before it was lost. An answer
// with less than before adds nothing: the container did not answer, or is gone.
func (f *outputFollower) advance(o client.Output) (added string, lost bool) {
	text := o.String()
	if !o.Truncated && (f.cut || len(text) < len(f.text) && strings.HasPrefix(f.text, text)) {
		return "", false
	}
	switch {
	case !f.cut && strings.HasPrefix(text, f.text):
		added = text[len(f.text):]
	case !o.Truncated:
		added = skipLines(text, strings.Count(f.text, "\n")) // a secret became known
	default:
		added, lost = f.beyond(o)
	}
	f.text, f.cut, f.total = text, o.Truncated, o.Total
	if f.cut {
		f.text = o.Tail
	}
	return added, lost
}

// beyond returns what follows the text in the end of an output. The text may be in it
// several times, if lines repeat: its place is where as much follows as was added.
func (f *outputFollower) beyond(o client.Output) (added string, lost bool) {
	grown := int(min(o.Total-f.total, int64(len(o.Tail))+1))
	if f.text == "" {
		return o.Tail, grown > len(o.Tail)
	}
	for size := logMarker; size >= minMarker && grown <= len(o.Tail); size /= 16 {
		if added, ok := following(o.Tail, f.text[max(0, len(f.text)-size):], grown); ok {
			return added, false
		}
	}
	return o.Tail, true
}

// minMarker is the shortest text by which the end of what was shown is found again.
const minMarker = 16

// following returns what follows a place of the marker in a text: that after which
// the number of bytes is nearest to n.
func following(text, marker string, n int) (added string, ok bool) {
	distance := 0
	for at := 0; ; {
		i := strings.Index(text[at:], marker)
		if i < 0 {
			return added, ok
		}
		after := text[at+i+len(marker):]
		if d := max(len(after)-n, n-len(after)); !ok || d <= distance {
			added, distance, ok = after, d, true
		}
		at += i + 1
	}
}

// skipLines returns a text without its first n lines.
func skipLines(text string, n int) string {
	for range n {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
