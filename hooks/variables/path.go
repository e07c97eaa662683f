package variables

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path is a path to one value in JSON, such as $.items[0]["display-name"]. The
// zero value is $, the whole.
type Path struct {
	source string
	steps  []step
}

// step is a key of an object, or an index of an array.
type step struct {
	key     string
	index   int
	isIndex bool
}

// ParsePath parses a path: $ and then .key, ["key"], ['key'] or [index], as in
// RFC 9535, without what selects several values. Its errors are of type
// *SyntaxError.
func ParsePath(text string) (Path, error) {
	if i := invalidUTF8(text); i >= 0 {
		return Path{}, syntaxError(i, "not valid UTF-8")
	}
	if !strings.HasPrefix(text, "$") {
		return Path{}, syntaxError(0, "a path begins with $: write one like $.items[0].id")
	}
	p := Path{source: text}
	for i := len("$"); i < len(text); {
		s, n, err := parseStep(text, i)
		if err != nil {
			return Path{}, err
		}
		p.steps = append(p.steps, s)
		i += n
	}
	return p, nil
}

// parseStep parses the step at offset i and returns its length.
func parseStep(text string, i int) (step, int, error) {
	rest := text[i:]
	switch {
	case strings.HasPrefix(rest, "."):
		n := lengthOfKey(rest[1:])
		if n == 0 {
			return step{}, 0, syntaxError(i+1, `a key is missing: write .key, or ["key"] for a key with special characters; a path selects one value`)
		}
		return step{key: rest[1 : 1+n]}, 1 + n, nil
	case strings.HasPrefix(rest, `["`), strings.HasPrefix(rest, `['`):
		n := endOfQuoted(rest[1:])
		if n < 0 || !strings.HasPrefix(rest[1+n:], "]") {
			return step{}, 0, syntaxError(i, `a key in brackets without its end: write ["key"]`)
		}
		key, err := unquote(rest[1 : 1+n])
		if err != nil {
			return step{}, 0, syntaxError(i+1, "a key that is not a JSON string: %v", err)
		}
		return step{key: key}, n + 2, nil
	case strings.HasPrefix(rest, "["):
		digits, _, ok := strings.Cut(rest[1:], "]")
		index, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil || digits != strconv.FormatUint(index, 10) {
			return step{}, 0, syntaxError(i+1, `not an index: write [0] or ["key"]; a path selects one value`)
		}
		return step{index: int(index), isIndex: true}, len(digits) + 2, nil
	}
	return step{}, 0, syntaxError(i, `%s is not part of a path: write .key, ["key"] or [0]`, firstRune(rest))
}

// lengthOfKey returns the length of the key that text begins with: letters,
// digits, _ and what is not ASCII, not beginning with a digit.
func lengthOfKey(text string) int {
	for i := range len(text) {
		c := text[i]
		isFirst := c == '_' || c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !isFirst && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// endOfQuoted returns the length of the string with quotes that text begins
// with, or -1.
func endOfQuoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return -1
}

// unquote returns the value of a string in double or single quotes, with the
// escapes of JSON.
func unquote(text string) (string, error) {
	if text[0] == '\'' {
		inner := strings.ReplaceAll(text[1:len(text)-1], `\'`, `'`)
		text = `"` + strings.ReplaceAll(inner, `"`, `\"`) + `"`
	}
	var key string
	err := json.Unmarshal([]byte(text), &key)
	return key, err
}

// String returns the source of the path.
func (p Path) String() string { return p.source }

// Find returns the text of the value at the path: a string without quotes, other
// values as JSON. ok is false if there is none, or if it is null. It fails if
// data is not JSON; the error has nothing of data. Of equal keys the last one
// counts.
func (p Path) Find(data []byte) (text string, ok bool, err error) {
	if !json.Valid(data) {
		return "", false, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", false, errors.New("not JSON")
	}
	for _, s := range p.steps {
		switch in := v.(type) {
		case map[string]any:
			v = nil
			if !s.isIndex {
				v = in[s.key]
			}
		case []any:
			v = nil
			if s.isIndex && s.index < len(in) {
				v = in[s.index]
			}
		default:
			return "", false, nil
		}
	}
	switch found := v.(type) {
	case nil:
		return "", false, nil
	case string:
		return found, true, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", false, errors.New("not JSON")
	}
	return strings.TrimSuffix(b.String(), "\n"), true, nil
}
