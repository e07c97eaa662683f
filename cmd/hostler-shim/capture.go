package main

import (
	"strings"
	"unicode/utf8"

	"github.com/hostler/hostler/runtime"
)

// capture keeps the beginning and the end of a stream of any length, in
// constant memory.
type capture struct {
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring continues
	total int64
}

// Write never fails and never keeps p.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := runtime.OutputHead - len(c.head); room > 0 {
		size := min(room, len(p))
		c.head = append(c.head, p[:size]...)
		p = p[size:]
	}
	if len(p) > runtime.OutputTail { // only its end will stay
		c.tail, c.next = append(c.tail[:0], p[len(p)-runtime.OutputTail:]...), 0
		return n, nil
	}
	if room := runtime.OutputTail - len(c.tail); room > 0 {
		size := min(room, len(p))
		c.tail = append(c.tail, p[:size]...)
		p = p[size:]
	}
	for len(p) > 0 {
		copied := copy(c.tail[c.next:], p)
		c.next = (c.next + copied) % len(c.tail)
		p = p[copied:]
	}
	return n, nil
}

// output is what was kept, as text. No character is cut in two where the head
// ends: it goes to the tail, or is left out when the rest of it is lost.
func (c *capture) output() runtime.Output {
	tail := append(append([]byte{}, c.tail[c.next:]...), c.tail[:c.next]...)
	out := runtime.Output{Total: c.total}
	out.Truncated = c.total > int64(len(c.head)+len(tail))
	cut := len(c.head)
	if len(tail) > 0 {
		cut -= partialRune(c.head)
	}
	rest := c.head[cut:]
	if out.Truncated {
		out.Head, out.Tail = sanitizeText(c.head[:cut]), sanitizeText(trimContinuation(tail))
		return out
	}
	out.Head, out.Tail = sanitizeText(c.head[:cut]), sanitizeText(append(append([]byte{}, rest...), tail...))
	return out
}

// partialRune is how many bytes at the end of b begin a character that does not
// end there.
func partialRune(b []byte) int {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return i
		}
	}
	return 0
}

// trimContinuation drops the rest of a character whose beginning is lost.
func trimContinuation(b []byte) []byte {
	for i := range min(utf8.UTFMax-1, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// sanitizeText makes bytes fit for JSON and for every database: valid UTF-8 without
// NUL.
func sanitizeText(b []byte) string {
	const replacement = string(utf8.RuneError)
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), replacement), "\x00", replacement)
}
