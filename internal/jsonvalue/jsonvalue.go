// Package jsonvalue checks the JSON values that tenants send, and makes them
// printable.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be in each other. Package
// encoding/json reads nothing that is 10,000 deep, and a value is sent within
// others.
const MaxDepth = 1000

// ErrTooLong is the error for a value that is longer than it may be.
var ErrTooLong = errors.New("it is too long")

// Compact returns a JSON value of at most limit bytes, as given, without
// insignificant space; nil for nothing but space. Its errors have no subject and
// never quote the value.
func Compact(value []byte, limit int) (json.RawMessage, error) {
	if len(value) > limit {
		return nil, tooLong{len(value), limit}
	}
	if len(bytes.TrimSpace(value)) == 0 {
		return nil, nil
	}
	if !utf8.Valid(value) {
		return nil, errors.New("is not UTF-8")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return nil, errors.New("is not JSON")
	}
	if depth, _ := Measure(compact.Bytes()); depth > MaxDepth {
		return nil, fmt.Errorf("is nested more than %d levels deep", MaxDepth)
	}
	return compact.Bytes(), nil
}

// tooLong is ErrTooLong with its numbers.
type tooLong struct{ length, limit int }

func (e tooLong) Error() string {
	return fmt.Sprintf("has %d bytes, more than %d", e.length, e.limit)
}

func (tooLong) Is(target error) bool { return target == ErrTooLong }

// Escaped returns compact JSON with the unsafe characters of its strings, which are
// the only ones that it can have, as JSON can escape them: the value is the same.
func Escaped(compact []byte, isUnsafe func(rune) bool) json.RawMessage {
	if bytes.IndexFunc(compact, isUnsafe) < 0 {
		return compact
	}
	var b bytes.Buffer
	for _, r := range string(compact) {
		if !isUnsafe(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.Bytes()
}

// Measure returns how deep the arrays and objects of valid JSON are in each other, and
// how many parts it has: arrays, objects, their elements, names and values. What
// decodes it allocates something for each part.
func Measure(value []byte) (depth, parts int) {
	open, inString := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inString && c == '\\':
			i++ // what follows ends no string
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			open++
			parts++
			depth = max(depth, open)
		case c == '}' || c == ']':
			open--
		case c == ',' || c == ':':
			parts++
		}
	}
	return depth, parts
}
