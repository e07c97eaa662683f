package oidc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of claims.
const (
	maxName   = 255 // bytes of a subject
	maxText   = 1024
	maxValues = 1000
	maxDepth  = 8
)

var errClaims = errors.New("the claims of the token are not valid")

// claims are the claims of a token. Their names are compared exactly, as issuers do:
// encoding/json would take a claim Sub, which users may be able to set, for sub.
type claims map[string]any

// readClaims reads a payload. One with two claims of a name is refused: which of them
// the issuer means is not known.
func readClaims(payload []byte) (claims, error) {
	if !utf8.Valid(payload) {
		return nil, errClaims
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	value, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if _, err := d.Token(); !ok || !errors.Is(err, io.EOF) {
		return nil, errClaims
	}
	return object, nil
}

// readValue reads a JSON value whose objects have no name twice.
func readValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errClaims
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, errClaims
			}
			text, _ := name.(string)
			if _, twice := object[text]; twice {
				return nil, errClaims
			}
			if object[text], err = readValue(d, depth+1); err != nil {
				return nil, err
			}
		}
		return object, readEnd(d)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, readEnd(d)
	}
	return token, nil
}

func readEnd(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return errClaims
	}
	return nil
}

func (c claims) has(name string) bool {
	_, ok := c[name]
	return ok
}

// text returns a claim that is a string; else it is empty.
func (c claims) text(name string) string {
	text, _ := c[name].(string)
	return text
}

// values returns a claim that is a string or a list of strings.
func (c claims) values(name string) []string {
	list, isList := c[name].([]any)
	if !isList {
		list = []any{c[name]}
	}
	var texts []string
	for _, value := range list {
		if text, ok := value.(string); ok && text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// maxTime is the end of the year 9999, in seconds. Later times are not valid in JSON.
const maxTime = 253402300799

// time returns a claim that is a time in seconds.
func (c claims) time(name string) (time.Time, bool) {
	number, ok := c[name].(json.Number)
	if !ok {
		return time.Time{}, false
	}
	seconds, err := number.Float64()
	if err != nil || math.IsNaN(seconds) || seconds <= 0 || seconds > maxTime {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

// isName reports whether a text can name a subject.
func isName(s string) bool { return s != "" && len(s) <= maxName && isText(s) }

// isText reports whether a text is shown as it is. An escape of half a character is
// read as utf8.RuneError, so two different texts could be equal.
func isText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	})
}

// registered are the claims with a meaning for the token itself.
var registered = map[string]bool{"iss": true, "sub": true, "exp": true, "nbf": true, "iat": true, "jti": true}

// others returns the claims that bindings may name: each a list of texts. The name of
// a claim within an object is that of the object, a dot, and its own.
func (c claims) others() (map[string][]string, error) {
	f := flattened{values: map[string][]string{}}
	for name, value := range c {
		if !registered[name] {
			if err := f.add(name, value); err != nil {
				return nil, err
			}
		}
	}
	return f.values, nil
}

// flattened collects claims.
type flattened struct {
	values map[string][]string
	count  int
}

// add adds a claim. A name that two claims have, one of them by its dots, is refused.
func (f *flattened) add(name string, value any) error {
	if object, ok := value.(map[string]any); ok {
		for inner, v := range object {
			if err := f.add(name+"."+inner, v); err != nil {
				return err
			}
		}
		return nil
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	texts := []string{}
	for _, v := range list {
		text, ok := scalar(v)
		if !ok {
			continue // nothing that a binding could match
		}
		if f.count++; f.count > maxValues || len(text) > maxText {
			return fmt.Errorf("the token has more than %d values of claims, or one of more than %d bytes", maxValues, maxText)
		}
		texts = append(texts, text)
	}
	if _, twice := f.values[name]; twice || len(name) > maxText {
		return errClaims
	}
	f.values[name] = texts
	return nil
}

// scalar returns a value that is neither an object, a list nor null as text.
func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, isText(v)
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}
