package variables

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRendered is the max length of a rendered template in bytes.
const maxRendered = 8 << 20

var errTooLong = errors.New("longer than 8 MiB with the values of its variables")

// Template is text with variables. It is parsed and does not change. The zero
// Template is empty.
type Template struct {
	source string
	parts  []part
}

// part is literal text or a variable.
type part struct {
	text   string // literal
	name   string // of the variable; empty: literal text
	offset int    // in the source
}

// ParseTemplate parses text. In it, ${NAME} is a variable and $${ a literal ${.
// Names have letters, digits, _, . and -, and begin with a letter or _. Other
// dollar signs are literal. Its errors are of type *SyntaxError.
func ParseTemplate(text string) (Template, error) {
	t := Template{source: text}
	if i := invalidUTF8(text); i >= 0 {
		return Template{}, syntaxError(i, "not valid UTF-8")
	}
	start := 0 // of the literal text that is not yet in a part
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			t.addText(text[start:i]+"${", start)
			i += len("$${")
			start = i
		case strings.HasPrefix(text[i:], "${"):
			t.addText(text[start:i], start)
			end, err := endOfVariable(text, i)
			if err != nil {
				return Template{}, err
			}
			t.parts = append(t.parts, part{name: text[i+len("${") : end], offset: i})
			i = end + len("}")
			start = i
		default:
			i++
		}
	}
	t.addText(text[start:], start)
	return t, nil
}

// addText adds literal text.
func (t *Template) addText(text string, offset int) {
	if text != "" {
		t.parts = append(t.parts, part{text: text, offset: offset})
	}
}

// endOfVariable returns the offset of the } of the variable at offset start.
func endOfVariable(text string, start int) (int, error) {
	const hint = "write ${NAME}, or $${ for a literal ${"
	i := start + len("${")
	n := lengthOfName(text[i:])
	rest := text[i+n:]
	switch {
	case n > 0 && strings.HasPrefix(rest, "}"):
		return i + n, nil
	case rest == "":
		return 0, syntaxError(start, `"${" has no "}": %s`, hint)
	case strings.HasPrefix(rest, "${"):
		return 0, syntaxError(i+n, "a variable within a variable: %s", hint)
	case n == 0 && strings.HasPrefix(rest, "}"):
		return 0, syntaxError(start, "a variable without a name: %s", hint)
	case n == 0:
		return 0, syntaxError(i, "%s begins no name: %s", firstRune(rest), hint)
	}
	return 0, syntaxError(i+n, "%s is not part of a name; there are no defaults and no functions: %s", firstRune(rest), hint)
}

// Literal returns the template of text without variables.
func Literal(text string) Template {
	t := Template{source: text}
	t.addText(text, 0)
	return t
}

// String returns the source of the template.
func (t Template) String() string { return t.source }

// Names returns the names of the variables in the order of their first use,
// each once.
func (t Template) Names() []string { return namesOf(t.variables()) }

// variables returns the parts that are variables.
func (t Template) variables() []part {
	return slices.DeleteFunc(slices.Clone(t.parts), func(p part) bool { return p.name == "" })
}

// namesOf returns the names of vars, each once.
func namesOf(vars []part) []string {
	var names []string
	seen := make(map[string]bool, len(vars))
	for _, v := range vars {
		if !seen[v.name] {
			seen[v.name] = true
			names = append(names, v.name)
		}
	}
	return names
}

// render returns the template with the result of value for each variable, which
// stands at offset at of the result.
func (t Template) render(value func(at int, v part) (string, error)) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		text := p.text
		if p.name != "" {
			var err error
			if text, err = value(b.Len(), p); err != nil {
				return "", err
			}
		}
		if b.Len()+len(text) > maxRendered {
			return "", errTooLong
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// Text substitutes the variables without an encoding, for environments of
// processes. A secret, and a name that lookup does not supply, stays as it is
// written. NUL, which no environment can have, becomes U+FFFD. A value with
// which the text would be longer than 8 MiB is empty.
func (t Template) Text(lookup Lookup) string {
	text, _ := t.render(func(at int, p part) (string, error) {
		v, ok := lookup.value(p.name)
		if !ok || environment.check(p, v.Class) != nil {
			v.Text = "${" + p.name + "}"
		}
		text := strings.ReplaceAll(v.Text, "\x00", "\uFFFD")
		if at+len(text) > maxRendered-len(t.source) {
			return "", nil
		}
		return text, nil
	})
	return text
}

// CheckText returns an error of type *NameError if the text has a secret. Unlike
// the other checks, it ignores what classOf does not know: that stays as it is
// written.
func (t Template) CheckText(classOf func(name string) (Class, bool)) error {
	return checkClasses(t.variables(), environment, classOf)
}

// Header returns the value of a header. It fails if a variable may not stand
// there, or if there is a control character. Its errors never have values.
func (t Template) Header(lookup Lookup) (string, error) {
	text, err := t.render(func(_ int, p part) (string, error) {
		v, ok := lookup.value(p.name)
		if !ok {
			return "", nil
		}
		if err := header.check(p, v.Class); err != nil {
			return "", err
		}
		if indexControl(v.Text) >= 0 {
			return "", &NameError{Name: p.name, Offset: p.offset, Message: "has a control character, which may not stand in a header"}
		}
		return v.Text, nil
	})
	if err == nil && indexControl(text) >= 0 {
		return "", errors.New("a control character, which may not stand in a header")
	}
	return text, err
}

// CheckHeader returns an error if Header would fail with every value: of type
// *NameError because of a variable, else of type *SyntaxError. classOf returns
// the class of a variable; ok is false if nothing supplies it.
func (t Template) CheckHeader(classOf func(name string) (Class, bool)) error {
	for _, p := range t.parts {
		if i := indexControl(p.text); i >= 0 {
			return syntaxError(p.offset+i, "a control character, which may not stand in a header")
		}
	}
	return checkVariables(t.variables(), header, classOf)
}

// lengthOfName returns the length of the name that text begins with.
func lengthOfName(text string) int {
	for i := range len(text) {
		c := text[i]
		isFirst := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !isFirst && (i == 0 || c != '.' && c != '-' && (c < '0' || c > '9')) {
			return i
		}
	}
	return len(text)
}

// firstRune returns the first character of text, quoted.
func firstRune(text string) string {
	r, _ := utf8.DecodeRuneInString(text)
	return strconv.QuoteRune(r)
}

// indexControl returns the offset of the first control character, or of what is
// not UTF-8, or -1.
func indexControl(text string) int {
	if i := invalidUTF8(text); i >= 0 {
		return i
	}
	return strings.IndexFunc(text, unicode.IsControl)
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}
