package request

import "strings"

// cutUnit is what the length of the longest secret is rounded up to: what is left
// out of an output does not reveal it.
const cutUnit = 512

// maxEscape and maxControlEscape are how long a byte of a secret is in text whose
// encoder escapes all that it may: as %2F, and as \u0007.
const (
	maxEscape        = len("%2F")
	maxControlEscape = len(`\u0007`)
)

// RedactEnds is Redact for the beginning and the end of a text whose middle is lost:
// each may have a part of a secret where it was cut. What is that near to the cut is
// left out, whatever it is. A part that is replaced only if it is one of a secret
// would let the author of the text guess secrets character by character.
func (r *Redactor) RedactEnds(head, tail string) (string, string) {
	margin := r.margin()
	if margin == 0 {
		return head, tail
	}
	// A whole secret that reaches into what is left out is in one of the texts only.
	head = commonPrefix(r.Redact(head), r.Redact(head[:max(0, len(head)-margin)]))
	tail = commonSuffix(r.Redact(tail), r.Redact(tail[min(margin, len(tail)):]))
	return strings.ToValidUTF8(head, ""), strings.ToValidUTF8(tail, "")
}

// margin returns how long a known secret may be in text, 0 if none is known.
func (r *Redactor) margin() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := 0
	for _, v := range r.values {
		n := 0
		for i := range len(v) {
			if n += maxEscape; v[i] < ' ' {
				n += maxControlEscape - maxEscape
			}
		}
		longest = max(longest, n)
	}
	return (longest + cutUnit - 1) / cutUnit * cutUnit
}

func commonPrefix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

func commonSuffix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return a[len(a)-n:]
}
