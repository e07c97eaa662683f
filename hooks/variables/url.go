package variables

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// span is a variable in the text of a URL.
type span struct {
	part
	class Class
	start int
}

// Host returns the host of a URL, with its port, if no variable is in the scheme
// or the host; else "".
func (t Template) Host() string {
	text, spans, err := t.assemble(neutral(nil))
	if err != nil || len(spans) > 0 && spans[0].start < boundsOf(text).path {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// URL returns the URL of a request over http or https. Values are
// percent-encoded, except those of secrets and of the workload's environment,
// which are inserted as they are. It fails if a variable is empty or stands
// where it may not, or if a segment of the path with a percent-encoded value
// could change other segments: . or .. or one with a control character. Its
// errors never have values.
func (t Template) URL(lookup Lookup) (*url.URL, error) {
	text, spans, err := t.assemble(lookup)
	if err != nil {
		return nil, err
	}
	if err := checkSpans(text, spans); err != nil {
		return nil, err
	}
	return parseURL(text)
}

// CheckURL returns an error if URL would fail with every value: of type
// *NameError because of a variable, else of type *SyntaxError. classOf returns
// the class of a variable; ok is false if nothing supplies it.
func (t Template) CheckURL(classOf func(name string) (Class, bool)) error {
	if err := checkNames(t.variables(), classOf); err != nil {
		return err
	}
	for _, p := range t.parts {
		if i := indexUnencoded(p.text); i >= 0 {
			return syntaxError(p.offset+i, "a space or a control character in a URL: write it percent-encoded, such as %%20")
		}
	}
	text, spans, err := t.assemble(neutral(classOf))
	if err != nil {
		return err
	}
	if err := checkSpans(text, spans); err != nil {
		return err
	}
	if _, err := parseURL(withHost(text, spans)); err != nil {
		return syntaxError(0, "%v: write https://HOST/PATH", err)
	}
	return nil
}

// neutral returns a Lookup that supplies a letter for each variable. The letter
// is in no escape of a URL or of JSON: what parses with it has the same shape
// with each encoded value. A nil classOf knows each name.
func neutral(classOf func(name string) (Class, bool)) Lookup {
	return func(name string) (Value, bool) {
		if classOf == nil {
			return Value{Text: "x"}, true
		}
		class, ok := classOf(name)
		return Value{"x", class}, ok
	}
}

// withHost returns text with a neutral scheme and host where variables supply
// them.
func withHost(text string, spans []span) string {
	b := boundsOf(text)
	switch {
	case len(spans) == 0 || spans[0].start >= b.path:
		return text
	case spans[0].start >= b.host && b.host > 0:
		return text[:b.host] + "x" + text[b.path:]
	}
	return "https://x" + text[b.path:]
}

// assemble returns the text of the URL and where its variables are in it.
func (t Template) assemble(lookup Lookup) (string, []span, error) {
	var spans []span
	text, err := t.render(func(at int, p part) (string, error) {
		v, ok := lookup.value(p.name)
		if !ok || v.Text == "" {
			return "", &NameError{Name: p.name, Offset: p.offset, Message: "is empty, which it may not be in a URL"}
		}
		if !v.Class.isRaw() {
			v.Text = escape(v.Text)
		}
		spans = append(spans, span{part: p, class: v.Class, start: at})
		return v.Text, nil
	})
	return text, spans, err
}

// escape percent-encodes all but letters, digits and - . _ ~, so that the result
// is the same value in a path and in a query.
func escape(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// bounds are offsets in the text of a URL. What is missing is empty.
type bounds struct {
	host     int // of the authority; 0 without a scheme
	path     int
	query    int
	fragment int
}

// boundsOf returns the bounds of text.
func boundsOf(text string) bounds {
	var b bounds
	if i := strings.Index(text, "://"); i >= 0 && !strings.ContainsAny(text[:i], "/?#") {
		b.host = i + len("://")
	}
	b.path = indexAny(text, b.host, "/?#")
	b.query = indexAny(text, b.path, "?#")
	b.fragment = indexAny(text, b.query, "#")
	return b
}

// indexAny returns the offset of the first of chars from start, or the length of
// text.
func indexAny(text string, start int, chars string) int {
	if i := strings.IndexAny(text[start:], chars); i >= 0 {
		return start + i
	}
	return len(text)
}

// checkSpans returns an error for the first variable that may not stand where it
// stands in text. That depends on the values that are inserted as they are.
func checkSpans(text string, spans []span) error {
	b := boundsOf(text)
	checked := 0       // the end of the last segment of the path that was checked
	scanned := b.query // up to where the query was scanned for keys
	isKey := true
	for _, s := range spans {
		if s.start >= b.query {
			if i := strings.LastIndexAny(text[scanned:s.start], "&;="); i >= 0 {
				isKey = text[scanned+i] != '='
			}
			scanned = s.start
		}
		if err := b.placeOf(s.start, isKey).check(s.part, s.class); err != nil {
			return err
		}
		if s.class.isRaw() {
			continue
		}
		if strings.Contains(text[max(0, s.start-2):s.start], "%") {
			return &NameError{Name: s.name, Offset: s.offset, Message: "is within a percent-encoded character: write %25 for a literal %"}
		}
		if s.start < b.query && s.start >= checked {
			start := strings.LastIndexByte(text[:s.start], '/') + 1
			checked = min(indexAny(text, s.start, "/"), b.query)
			if reason := unsafeSegment(text[start:checked]); reason != "" {
				return &NameError{Name: s.name, Offset: s.offset, Message: "is in a segment of the path that " + reason}
			}
		}
	}
	return nil
}

// placeOf returns the place at offset i. isKey is for the query.
func (b bounds) placeOf(i int, isKey bool) place {
	switch {
	case i < b.path:
		return authority
	case i >= b.fragment:
		return fragment
	case i >= b.query && isKey:
		return queryKey
	}
	return pathOrValue
}

// unsafeSegment returns why a segment of a path could change other segments, ""
// if it could not. Servers differ in whether they decode a path before they
// remove its dot segments, and some end it at NUL.
func unsafeSegment(segment string) string {
	text, err := url.PathUnescape(segment)
	if err != nil {
		return "is not percent-encoded"
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return "has . or .. as an element"
		}
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return "has a control character"
	}
	return ""
}

// parseURL parses the text of an http or https URL. Its errors have no text of
// the URL.
func parseURL(text string) (*url.URL, error) {
	if indexUnencoded(text) >= 0 {
		return nil, errors.New("not a URL: it has a space or a control character")
	}
	b := boundsOf(text)
	encoded := text[:b.path] + encodeRest(text[b.path:])
	u, err := url.Parse(encoded)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("not an http or https URL")
	case u.Hostname() == "":
		return nil, errors.New("a URL without a host")
	}
	return u, nil
}

// encodeRest percent-encodes what RFC 3986 permits in no path, query or
// fragment, and nothing else. Package url encodes a path with such a character
// from its decoded form, in which an encoded slash has become a slash.
func encodeRest(text string) string {
	const permitted = "-._~!$&'()*+,;=:@[]%/?#"
	var b strings.Builder
	for _, c := range []byte(text) {
		if '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || strings.IndexByte(permitted, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// indexUnencoded returns the offset of the first space or control character, or
// -1. An author has to encode them, because they are often a mistake.
func indexUnencoded(text string) int {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
