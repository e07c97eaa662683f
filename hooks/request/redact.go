package request

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"
)

// redacted replaces a secret.
const redacted = "•••"

// MinSecret is the minimum length of a secret in bytes. Shorter ones would be
// found in text that has nothing to do with them.
const MinSecret = 8

// maxRedacted is the max number of values that a Redactor knows. The oldest are
// forgotten.
const maxRedacted = 4096

// Redactor replaces known secrets in text: as they are, in base64 (in either
// alphabet, with or without padding, also within other data), and with bytes
// that are percent-encoded or escaped as in JSON. It is safe for concurrent use.
// The zero value knows no secret.
type Redactor struct {
	mu     sync.Mutex // guards values
	values []string   // oldest first
	index  atomic.Pointer[patternIndex]
}

// patternIndex has the patterns by their first byte.
type patternIndex struct {
	byFirst [256][]pattern
	live    liveIndex
}

// pattern is one form of a secret.
type pattern struct {
	text   string
	base64 bool // in the standard alphabet; - and _ are + and /
}

// Add adds secrets. Values that are shorter than MinSecret are ignored. What a
// receiver may repeat of a secret is secret too: its form after a URL was
// decoded, the parts of one that is a URL, the private parts of keys, and single lines.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for _, v := range values {
		// What is kept of outputs has other bytes for those that are not text.
		for _, part := range slices.Concat([]string{v, storable(v)}, decodedForms(v), urlParts(v), keyParts(v), lineParts(v)) {
			if len(part) >= MinSecret && !slices.Contains(r.values, part) {
				r.values, changed = append(r.values, part), true
			}
		}
	}
	if !changed {
		return
	}
	r.values = slices.Clone(r.values[max(0, len(r.values)-maxRedacted):])
	index := new(patternIndex)
	for _, v := range r.values {
		index.add(pattern{text: v})
		for skip := range 3 {
			index.add(base64Pattern(v, skip))
		}
	}
	r.index.Store(index)
}

// minSegment is the minimum length of a segment of a path that is a secret of
// its own.
const minSegment = 16

// decodedForms returns what a receiver decodes a secret to that is inserted into
// a URL as it is: in its path, and in its query.
func decodedForms(secret string) []string {
	path, _ := url.PathUnescape(secret)
	query, _ := url.QueryUnescape(secret)
	return []string{path, query}
}

// userParts returns the parts of the user of a URL that are as secret as the
// URL: services take a token as the user or as the password.
func userParts(user *url.Userinfo) []string {
	password, _ := user.Password()
	return []string{user.Username(), password, user.Username() + ":" + password}
}

// urlParts returns the parts of a URL that are as secret as the URL.
func urlParts(secret string) []string {
	u, err := url.Parse(secret)
	if err != nil || u.Host == "" {
		return nil
	}
	parts := append(userParts(u.User), u.RawQuery, u.Path)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	path := strings.Trim(u.Path, "/")
	for _, segment := range append(strings.Split(path, "/"), path) {
		if len(segment) >= minSegment {
			parts = append(parts, segment)
		}
	}
	return parts
}

// keyParts returns the private parts of a key in JSON, and those of a key of
// webhooks.
func keyParts(secret string) []string {
	if encoded, ok := strings.CutPrefix(secret, keyPrefix); ok {
		key, _ := base64.StdEncoding.DecodeString(encoded)
		return []string{encoded, string(key)}
	}
	var key struct {
		PrivateKey   string `json:"private_key"`
		ClientSecret string `json:"client_secret"`
		RefreshToken string `json:"refresh_token"`
	}
	if json.Unmarshal([]byte(secret), &key) != nil {
		return nil
	}
	return []string{key.PrivateKey, strings.TrimSpace(key.PrivateKey), key.ClientSecret, key.RefreshToken}
}

// Of a secret with several lines, lines of this length are secrets of their own, and
// as many of them.
const (
	minLine  = 16
	maxLines = 128
)

// lineParts returns the lines of a secret that has several, without those that only
// name what it is.
func lineParts(secret string) (parts []string) {
	for line := range strings.SplitSeq(secret, "\n") {
		line = strings.TrimSpace(line)
		if len(line) >= minLine && line != strings.TrimSpace(secret) && !strings.HasPrefix(line, "-----") && len(parts) < maxLines {
			parts = append(parts, line)
		}
	}
	return parts
}

// base64Pattern returns the base64 form of a secret that follows skip bytes of
// other data. The characters that also depend on other data are omitted.
func base64Pattern(secret string, skip int) pattern {
	encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, skip), secret...))
	first := (skip*8 + 5) / 6
	end := (skip + len(secret)) * 8 / 6
	return pattern{text: encoded[first:end], base64: true}
}

func (x *patternIndex) add(p pattern) {
	for _, first := range p.firstBytes() {
		x.byFirst[first] = append(x.byFirst[first], p)
	}
	x.live.add(p)
}

// firstBytes returns the bytes that the pattern may begin with, unless escaped.
func (p pattern) firstBytes() []byte {
	first := p.text[0]
	switch {
	case p.base64 && first == '+':
		return []byte{first, '-'}
	case p.base64 && first == '/':
		return []byte{first, '_'}
	}
	return []byte{first}
}

// Redact returns s with every known secret replaced by •••.
func (r *Redactor) Redact(s string) string { return r.redact(s, false) }

// redact is Redact. If cut is set, s is the start of a longer text, and the
// start of a secret at its end is replaced as well. Who supplies s and reads the
// result can then guess the secrets that r knows, one character after another.
func (r *Redactor) redact(s string, cut bool) string {
	if r == nil {
		return s
	}
	index := r.index.Load()
	if index == nil {
		return s
	}
	var b strings.Builder
	kept := 0
	for at := 0; at < len(s); {
		n := index.longest(s[at:], cut)
		if n == 0 {
			at++
			continue
		}
		b.WriteString(s[kept:at])
		b.WriteString(redacted)
		at += n
		kept = at
	}
	b.WriteString(s[kept:])
	return b.String()
}

// longest returns the length of the longest secret at the start of s, 0 for none.
func (x *patternIndex) longest(s string, cut bool) int {
	longest := 0
	try := func(list []pattern) {
		for _, p := range list {
			if n, complete := p.match(s); n > longest && (complete || cut) {
				longest = n
			}
		}
	}
	try(x.byFirst[s[0]])
	if decoded, n := unescape(s); n > 0 && decoded[0] != s[0] {
		try(x.byFirst[decoded[0]])
	} else if cut && isEscapeStart(s) {
		return len(s)
	}
	return longest
}

// match returns the length of the pattern at the start of s. complete is false
// if s ends within the pattern. The length is 0 if something else is there.
func (p pattern) match(s string) (n int, complete bool) {
	for _, as := range []reading{{true, true}, {true, false}, {false, true}, {false, false}} {
		length, complete, isAmbiguous := p.matchAs(s, as)
		if complete {
			return length, true
		}
		n = max(n, length)
		if !isAmbiguous {
			break
		}
	}
	return n, false
}

// reading is how text is read that may stand for itself, or be an escape: such as
// %25 for a secret with %, or with %25.
type reading struct{ percent, json bool }

// matchAs is match for one reading. isAmbiguous reports whether others differ.
func (p pattern) matchAs(s string, as reading) (n int, complete, isAmbiguous bool) {
	for p.text != "" {
		if p.base64 && n > 0 {
			n += lineBreaks(s[n:])
		}
		if n == len(s) {
			return n, false, isAmbiguous
		}
		if p.text[0] == '\n' && strings.HasPrefix(s[n:], "\r\n") {
			n++ // as terminals print it
		}
		decoded, size := unescape(s[n:])
		isEscaped := size > 0 && p.hasPrefix(decoded)
		isPlain := p.hasPrefix(s[n : n+1])
		isCut := size == 0 && isEscapeStart(s[n:])
		prefersEscape := s[n] == '%' && as.percent || s[n] == '\\' && as.json
		isAmbiguous = isAmbiguous || isPlain && (isEscaped || isCut)
		switch {
		case isEscaped && (prefersEscape || !isPlain):
			n, p.text = n+size, p.text[len(decoded):]
		case isPlain && !(isCut && prefersEscape):
			n, p.text = n+1, p.text[1:]
		case isEscapeStart(s[n:]):
			return len(s), false, isAmbiguous
		default:
			return 0, false, isAmbiguous
		}
	}
	return n, true, isAmbiguous
}

// hasPrefix reports whether the pattern begins with s.
func (p pattern) hasPrefix(s string) bool {
	if p.base64 && s == "-" {
		s = "+"
	} else if p.base64 && s == "_" {
		s = "/"
	}
	return strings.HasPrefix(p.text, s)
}

// escapes are the short escapes of JSON strings.
var escapes = map[byte]string{
	'"': `"`, '\\': `\`, '/': "/", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t",
}

// unescape returns what the escape at the start of s stands for, and its length,
// 0 if there is none.
func unescape(s string) (decoded string, n int) {
	switch {
	case s[0] == '+':
		return " ", 1
	case s[0] == '%' && len(s) >= 3:
		if b, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			return string([]byte{byte(b)}), 3
		}
	case s[0] == '\\' && len(s) >= 2 && s[1] == 'u':
		return unescapeUnicode(s)
	case s[0] == '\\' && len(s) >= 2:
		if text := escapes[s[1]]; text != "" {
			return text, 2
		}
	}
	return "", 0
}

// unescapeUnicode is unescape for \u and four digits, or two of them.
func unescapeUnicode(s string) (string, int) {
	const size = len(`\u0000`)
	if len(s) < size {
		return "", 0
	}
	v, err := strconv.ParseUint(s[2:size], 16, 16)
	if err != nil {
		return "", 0
	}
	if utf16.IsSurrogate(rune(v)) && len(s) >= 2*size && s[size:size+2] == `\u` {
		if low, err := strconv.ParseUint(s[size+2:2*size], 16, 16); err == nil {
			if r := utf16.DecodeRune(rune(v), rune(low)); r != utf8.RuneError {
				return string(r), 2 * size
			}
		}
	}
	return string(rune(v)), size
}

// lineBreaks returns the length of the line breaks at the start of s: programs
// that encode in base64 add them.
func lineBreaks(s string) int {
	length := 0
	for length < len(s) {
		n := 1
		if decoded, size := unescape(s[length:]); decoded == "\n" || decoded == "\r" {
			n = size
		} else if s[length] != '\n' && s[length] != '\r' {
			break
		}
		length += n
	}
	return length
}

// isEscapeStart reports whether s is the start of an escape that is incomplete.
func isEscapeStart(s string) bool {
	switch {
	case s[0] == '%':
		return len(s) < 3
	case s[0] != '\\':
		return false
	}
	return len(s) < 2 || s[1] == 'u' && len(s) < 12
}
