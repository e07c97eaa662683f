package variables

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Body returns the body of a request. A body is JSON if the template is an
// object, an array or a string of JSON when its variables are replaced by
// neutral text. Then values in strings are escaped, whatever their class; a
// value outside a string must be a JSON value, and the result must be JSON. Other
// values are inserted as they are. It fails if a variable may not stand where it
// stands. Its errors never have values.
//
// What a receiver reads from a string, such as JSON or markup within it, is not
// escaped again.
func (t Template) Body(lookup Lookup) (string, error) {
	at, _ := t.placesInBody()
	n := -1
	text, err := t.render(func(_ int, p part) (string, error) {
		n++
		v, ok := lookup.value(p.name)
		if !ok {
			v.Class = Trusted // and empty
		}
		if err := at[n].check(p, v.Class); err != nil {
			return "", err
		}
		switch at[n] {
		case jsonString, jsonKey:
			return escapeJSON(v.Text), nil
		case jsonValue:
			if !json.Valid([]byte(v.Text)) {
				return "", &NameError{Name: p.name, Offset: p.offset, Message: "is not a JSON value: put the variable in quotes"}
			}
		}
		return v.Text, nil
	})
	if err != nil {
		return "", err
	}
	if i := slices.Index(at, jsonValue); i >= 0 && !json.Valid([]byte(text)) {
		v := t.variables()[i] // [1${A}] is JSON with some values only
		return "", &NameError{Name: v.name, Offset: v.offset, Message: "is joined to other text: the body is not JSON with its value"}
	}
	return text, nil
}

// CheckBody returns an error of type *NameError if Body would fail with every
// value. classOf returns the class of a variable; ok is false if nothing
// supplies it.
func (t Template) CheckBody(classOf func(name string) (Class, bool)) error {
	vars := t.variables()
	if err := checkNames(vars, classOf); err != nil {
		return err
	}
	places, notJSON := t.placesInBody()
	for i, at := range places {
		v := vars[i]
		class, _ := classOf(v.name)
		err := at.check(v, class)
		if refused, ok := errors.AsType[*NameError](err); ok && notJSON != nil {
			refused.Message += "; this one is not JSON because of " + notJSON.Error()
		}
		if err != nil {
			return err
		}
		if rule, ok := RuleOf(v.name); at == jsonValue && class == Trusted && ok && rule.Type == Text {
			return &NameError{Name: v.name, Offset: v.offset, Message: "is text, which is not a JSON value: put the variable in quotes"}
		}
	}
	return nil
}

// escapeJSON returns text as it stands in a JSON string. What is not UTF-8
// becomes U+FFFD.
func escapeJSON(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return "" // unreachable: each string has a JSON form
	}
	return strings.TrimSuffix(b.String()[1:], "\"\n")
}

// placesInBody returns where each variable stands in a body. notJSON is why a
// body that begins like JSON is not JSON.
func (t Template) placesInBody() (places []place, notJSON error) {
	var s scanner
	for _, p := range t.parts {
		if p.name == "" {
			s.scan(p.text)
		} else {
			s.add()
		}
	}
	text := bytes.TrimLeft(s.neutral, " \t\r\n")
	isText := len(text) == 0 || !strings.ContainsRune(`{["`, rune(text[0]))
	if !isText {
		var v json.RawMessage
		notJSON = json.Unmarshal(text, &v)
	}
	if isText || notJSON != nil {
		for i := range s.places {
			s.places[i] = plainBody
		}
	}
	return s.places, notJSON
}

// scanner finds where variables stand in a text that may be JSON. What it finds
// is true if the text with neutral values is JSON.
type scanner struct {
	places  []place
	neutral []byte // the text with neutral values
	quoted  bool   // in a string
	escaped bool   // after a backslash in a string
	ended   bool   // after a string, which is a key if a colon follows
	first   int    // the index of the first variable of the last string
}

// add adds a variable.
func (s *scanner) add() {
	s.escaped, s.ended = false, false
	if s.quoted {
		s.places = append(s.places, jsonString)
		s.neutral = append(s.neutral, 'x')
		return
	}
	s.places = append(s.places, jsonValue)
	s.neutral = append(s.neutral, '0')
}

// scan adds literal text.
func (s *scanner) scan(text string) {
	s.neutral = append(s.neutral, text...)
	for _, c := range []byte(text) {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted && c == '\\':
			s.escaped = true
		case c == '"':
			s.quoted, s.ended = !s.quoted, s.quoted
			if s.quoted {
				s.first = len(s.places)
			}
		case s.quoted || strings.IndexByte(" \t\r\n", c) >= 0:
		default:
			if s.ended && c == ':' {
				s.markKey()
			}
			s.ended = false
		}
	}
}

// markKey records that the last string is a key.
func (s *scanner) markKey() {
	for i := s.first; i < len(s.places); i++ {
		s.places[i] = jsonKey
	}
}
