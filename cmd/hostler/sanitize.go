package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sanitize returns text that a terminal can print safely. Tenants choose what
// their programs print: an escape sequence could rename the window, hide lines,
// or type a command into the operator's shell. Control characters, and those
// that reverse the direction of text, are escaped as in a Go string; newlines
// and tabs are kept.
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

// sanitizeFor returns a writer for the output of tenants: it is sanitized on a
// terminal, and unchanged elsewhere.
func sanitizeFor(w io.Writer, terminal bool) io.WriteCloser {
	if terminal {
		return &sanitizingWriter{to: w}
	}
	return nopCloser{w}
}

// nopCloser is a writer whose Close does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// sanitizingWriter sanitizes what it writes. It drops a carriage return before a
// newline, and joins a character that two writes split. Close writes an
// incomplete character at the end.
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

// Close writes the incomplete character at the end.
func (w *sanitizingWriter) Close() error {
	_, err := io.WriteString(w.to, sanitizeLines(string(w.rest)))
	w.rest = nil
	return err
}

// sanitizeLines is sanitize for text whose lines may end with "\r\n".
func sanitizeLines(s string) string { return sanitize(strings.ReplaceAll(s, "\r\n", "\n")) }

// incompleteSuffix returns how many bytes at the end of text may be the
// beginning of a character or of a line break.
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
