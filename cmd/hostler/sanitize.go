package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sanitize is text that changes nothing of a terminal but what is on the next
// lines of it. Tenants choose what their programs print: an escape sequence
// could rename the window, hide lines, or type what the operator's shell runs.
// Control characters, and those that reverse the direction of text, are shown
// as in a Go string; newlines and tabs stay.
func sanitize(s string) string {
	if !strings.ContainsFunc(s, isUnsafe) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isUnsafe(r):
			q := fmt.Sprintf("%+q", string(r))
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isUnsafe(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// sanitizeFor is a writer for what tenants have printed: harmless on a terminal, as
// it is elsewhere.
func sanitizeFor(w io.Writer, terminal bool) io.WriteCloser {
	if terminal {
		return &sanitizingWriter{to: w}
	}
	return nopCloser{w}
}

// nopCloser stays open.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// sanitizingWriter writes harmless text. A carriage return before a newline is
// dropped. A character that is cut in two by writes is put together; what is
// left of one at the end is shown by Close.
type sanitizingWriter struct {
	to   io.Writer
	rest []byte
}

func (w *sanitizingWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	keep := incompleteSuffix(text)
	w.rest = append([]byte(nil), text[len(text)-keep:]...)
	_, err := io.WriteString(w.to, sanitizeLines(string(text[:len(text)-keep])))
	return len(p), err
}

// Close writes what was kept back.
func (w *sanitizingWriter) Close() error {
	_, err := io.WriteString(w.to, sanitizeLines(string(w.rest)))
	w.rest = nil
	return err
}

// sanitizeLines is harmless for text of many lines.
func sanitizeLines(s string) string { return sanitize(strings.ReplaceAll(s, "\r\n", "\n")) }

// incompleteSuffix is how many bytes at the end of text may be the beginning of a
// character, or of a line's end.
func incompleteSuffix(text []byte) int {
	for n := 1; n <= min(len(text), utf8.UTFMax); n++ {
		b := text[len(text)-n]
		if n == 1 && b == '\r' {
			return 1
		}
		if utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
