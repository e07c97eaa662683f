package fake

import (
	"strings"
	"unicode/utf8"

	"github.com/hostler/hostler/runtime"
)

// capture keeps the beginning and the end of a stream, and counts the rest. It
// grows as it is written to, because most commands print little.
type capture struct {
	head  []byte
	tail  []byte // once it is full, a ring whose oldest byte is at next
	next  int
	total int64
}

func (c *capture) Write(b []byte) (int, error) {
	n := len(b)
	c.total += int64(n)
	if room := runtime.OutputHead - len(c.head); room > 0 {
		part := b[:min(room, len(b))]
		c.head = append(c.head, part...)
		b = b[len(part):]
	}
	if len(b) > runtime.OutputTail {
		b = b[len(b)-runtime.OutputTail:]
	}
	if room := runtime.OutputTail - len(c.tail); room > 0 {
		part := b[:min(room, len(b))]
		c.tail = append(c.tail, part...)
		b = b[len(part):]
	}
	for len(b) > 0 {
		written := copy(c.tail[c.next:], b)
		c.next = (c.next + written) % len(c.tail)
		b = b[written:]
	}
	return n, nil
}

// output returns what was kept, with no character split.
func (c *capture) output() runtime.Output {
	head := c.head
	tail := append(append(make([]byte, 0, len(c.tail)), c.tail[c.next:]...), c.tail[:c.next]...)
	truncated := c.total > int64(len(head)+len(tail))
	whole := len(head) - trailingPartial(head)
	if !truncated {
		tail = append(head[whole:len(head):len(head)], tail...)
	}
	if truncated {
		tail = tail[leadingPartial(tail):]
	}
	if len(c.tail) == 0 {
		// Nothing follows that could complete the character.
		whole, tail = len(head), nil
	}
	return runtime.Output{
		Head: text(head[:whole]), Tail: text(tail), Total: c.total, Truncated: truncated,
	}
}

// trailingPartial returns how many bytes at the end of b begin a character that
// continues after it.
func trailingPartial(b []byte) int {
	for i := 1; i <= min(len(b), utf8.UTFMax-1); i++ {
		last := b[len(b)-i:]
		if utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return i
		}
	}
	return 0
}

// leadingPartial returns how many bytes at the beginning of b end a character
// whose first byte is lost.
func leadingPartial(b []byte) int {
	n := 0
	for n < min(len(b), utf8.UTFMax-1) && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}

// text returns b as valid UTF-8 that every store accepts: PostgreSQL rejects NUL.
func text(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}
