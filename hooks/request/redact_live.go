package request

import "strings"

// What is printed of a secret may be a part of it, if it has several lines, or its
// base64 has. Whether the rest follows is not compared with the secret: who prints a
// text and sees what is withheld could guess the secret, one character after another.
// So all that follows the first characters of a secret is withheld, whatever it is,
// until there is room for the secret. To find these characters is as hard as to find
// a line of a secret.
const (
	plainStart  = minLine
	base64Start = 32
)

// secretStart is how a secret begins that may be printed in several lines.
type secretStart struct {
	pattern
	whole pattern
}

// liveIndex is what is known of secrets for text that is not complete.
type liveIndex struct {
	starts [256][]secretStart
	// lag is how much of the end is withheld whatever it is: a secret has a line break
	// among its first characters.
	lag  int
	span int // the most that a secret takes in text
}

func (x *liveIndex) add(p pattern) {
	size := plainStart
	if p.base64 {
		size = base64Start
		x.span = max(x.span, 2*len(p.text)) // with line breaks
	}
	hasLines := p.base64 || strings.Contains(p.text, "\n")
	if hasLines && !p.base64 && strings.Contains(p.text[:min(size, len(p.text))], "\n") {
		x.lag = size
	}
	if !hasLines || len(p.text) <= size {
		return
	}
	s := secretStart{pattern{p.text[:size], p.base64}, p}
	for _, first := range p.firstBytes() {
		x.starts[first] = append(x.starts[first], s)
	}
}

// isOpen reports whether a secret may begin at the start of s, and end after it. s has
// that many line breaks.
func (x *liveIndex) isOpen(s string, breaks int) bool {
	if isOpen(x.starts[s[0]], s, breaks) {
		return true
	}
	decoded, n := unescape(s)
	return n > 0 && decoded[0] != s[0] && isOpen(x.starts[decoded[0]], s, breaks)
}

func isOpen(starts []secretStart, s string, breaks int) bool {
	for _, p := range starts {
		n, complete := p.match(s)
		if !complete {
			continue
		}
		room, size := len(s), len(p.whole.text)
		if p.base64 {
			room -= breaks
			n -= breaksIn(s[:n])
		}
		if n > len(p.text) {
			size *= maxControlEscape
		}
		if room >= size {
			continue
		}
		if _, complete := p.whole.match(s); !complete {
			return true
		}
	}
	return false
}

func breaksIn(s string) int { return strings.Count(s, "\n") + strings.Count(s, "\r") }

// RedactLive is Redact for what was printed so far: without its end if that may be a
// part of a secret.
func (r *Redactor) RedactLive(s string) string {
	if r == nil || r.index.Load() == nil {
		return s
	}
	index := r.index.Load()
	var b strings.Builder
	at, kept, breaks := 0, 0, breaksIn(s) // after at
	for end := len(s) - index.live.lag; at < end && !index.live.isOpen(s[at:], breaks); {
		n := index.longest(s[at:], false)
		if n > 0 {
			b.WriteString(s[kept:at])
			b.WriteString(redacted)
			kept = at + n
		}
		n = max(n, 1)
		breaks -= breaksIn(s[at : at+n])
		at += n
	}
	b.WriteString(s[kept:at])
	return b.String()
}

// Span returns how much of a text that begins somewhere may be the end of a secret.
func (r *Redactor) Span() int {
	if r == nil || r.index.Load() == nil {
		return 0
	}
	return r.index.Load().live.span
}
