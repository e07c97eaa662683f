package runtime

import (
	"strings"
	"unicode/utf8"
)

// Capture keeps of a stream of any length what an Output has: its beginning and
// its end.
type Capture struct {
	head  []byte
	tail  []byte // a ring buffer once it is full
	next  int    // where the ring buffer continues
	total int64
}

// Write implements io.Writer. It never fails and does not retain p.
func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := OutputHead - len(c.head); room > 0 {
		size := min(room, len(p))
		c.head = append(c.head, p[:size]...)
		p = p[size:]
	}
	if len(p) > OutputTail { // only its end is kept
		c.tail, c.next = append(c.tail[:0], p[len(p)-OutputTail:]...), 0
		return n, nil
	}
	if room := OutputTail - len(c.tail); room > 0 {
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

// Output returns the kept bytes as text. It does not split a character at the
// end of the head: the character goes to the tail, or is dropped if the rest of
// it is lost.
func (c *Capture) Output() Output {
	tail := append(append([]byte{}, c.tail[c.next:]...), c.tail[:c.next]...)
	out := Output{Total: c.total}
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

// partialRune returns how many bytes at the end of b belong to an incomplete
// character.
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

// sanitizeText converts bytes to text that JSON and every database accept:
// valid UTF-8 without NUL.
func sanitizeText(b []byte) string {
	const replacement = string(utf8.RuneError)
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), replacement), "\x00", replacement)
}
