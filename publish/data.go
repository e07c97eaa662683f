package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hostler/hostler/internal/jsonvalue"
)

// The limits of an event's data.
const (
	MaxData  = 32 << 10 // bytes, as it is sent
	maxDepth = 32       // of arrays and objects in each other
)

// normalized returns JSON as it is stored: without space, and with every character
// escaped that could do something to a terminal or to a line of a log. It refuses
// what readers could understand differently.
func normalized(data []byte) (json.RawMessage, error) {
	compact, err := jsonvalue.Compact(data, MaxData)
	if err == nil && compact != nil {
		err = checkJSON(compact)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the data %w", ErrInvalid, err)
	}
	return jsonvalue.Escaped(compact, isUnsafe), nil
}

// checkJSON checks that a JSON value is not too deep, and that its objects have
// each name once.
func checkJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []map[string]bool // the names of each open object; nil for an array
	isName := false            // the next token is a name, or the end of its object
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New("is not JSON")
		}
		name, isText := t.(string)
		switch {
		case t == json.Delim('{') || t == json.Delim('['):
			var names map[string]bool
			if t == json.Delim('{') {
				names = map[string]bool{}
			}
			if open = append(open, names); len(open) > maxDepth {
				return fmt.Errorf("is nested more than %d levels deep", maxDepth)
			}
		case t == json.Delim('}') || t == json.Delim(']'):
			open = open[:len(open)-1]
		case isName && isText:
			names := open[len(open)-1]
			if names[name] {
				return fmt.Errorf("has the name %.100q twice in one object", name)
			}
			names[name], isName = true, false
			continue
		}
		isName = len(open) > 0 && open[len(open)-1] != nil
	}
}

// isUnsafe reports whether a character is one of control or format, such as those
// that reverse the direction of text, or ends a line.
func isUnsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// checkText returns an error unless text is short and harmless.
func checkText(what, text string, limit int) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("%w: the %s has %d bytes, more than %d", ErrInvalid, what, len(text), limit)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, isUnsafe):
		return fmt.Errorf("%w: the %s has a character that cannot be shown", ErrInvalid, what)
	}
	return nil
}
