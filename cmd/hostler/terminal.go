package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// harmless is text that changes nothing of a terminal but what is on the next
// lines of it. Tenants choose what their programs print: an escape sequence
// could rename the window, hide lines, or type what the operator's shell runs.
// Control characters, and those that reverse the direction of text, are shown
// as in a Go string; newlines and tabs stay.
func harmless(s string) string {
	if !strings.ContainsFunc(s, isHarmful) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isHarmful(r):
			q := fmt.Sprintf("%+q", string(r))
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isHarmful(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// shownOn is a writer for what tenants have printed: harmless on a terminal, as
// it is elsewhere.
func shownOn(w io.Writer, terminal bool) io.WriteCloser {
	if terminal {
		return &harmlessWriter{to: w}
	}
	return openWriter{w}
}

// openWriter stays open.
type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

// harmlessWriter writes harmless text. A carriage return before a newline is
// dropped. A character that is cut in two by writes is put together; what is
// left of one at the end is shown by Close.
type harmlessWriter struct {
	to   io.Writer
	rest []byte
}

func (w *harmlessWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	keep := incomplete(text)
	w.rest = append([]byte(nil), text[len(text)-keep:]...)
	_, err := io.WriteString(w.to, printable(string(text[:len(text)-keep])))
	return len(p), err
}

// Close writes what was kept back.
func (w *harmlessWriter) Close() error {
	_, err := io.WriteString(w.to, printable(string(w.rest)))
	w.rest = nil
	return err
}

// printable is harmless for text of many lines.
func printable(s string) string { return harmless(strings.ReplaceAll(s, "\r\n", "\n")) }

// incomplete is how many bytes at the end of text may be the beginning of a
// character, or of a line's end.
func incomplete(text []byte) int {
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
