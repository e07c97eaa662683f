package variables

import (
	"strings"
	"unicode"
)

// Condition is a conjunction of comparisons. The zero value is always true.
type Condition struct {
	source string
	terms  []term
}

// term is a comparison.
type term struct {
	part
	literal string
	negated bool
}

// ParseCondition parses a condition: NAME == literal or NAME != literal, joined
// by &&. A literal in single or double quotes has no escapes; without quotes, it
// ends at a space and has none of the characters that have a meaning elsewhere,
// such as operators, quotes, commas and patterns. Its errors are of type *SyntaxError.
func ParseCondition(text string) (Condition, error) {
	if i := invalidUTF8(text); i >= 0 {
		return Condition{}, syntaxError(i, "not valid UTF-8")
	}
	p := conditionParser{text: text}
	c := Condition{source: text}
	for {
		t, err := p.term()
		if err != nil {
			return Condition{}, err
		}
		c.terms = append(c.terms, t)
		p.skipSpace()
		if p.rest() == "" {
			return c, nil
		}
		if !p.skip("&&") {
			return Condition{}, p.errAfterTerm()
		}
	}
}

// String returns the source of the condition.
func (c Condition) String() string { return c.source }

// Names returns the names of the variables in the order of their first use,
// each once.
func (c Condition) Names() []string { return namesOf(c.variables()) }

// variables returns the variables.
func (c Condition) variables() []part {
	vars := make([]part, 0, len(c.terms))
	for _, t := range c.terms {
		vars = append(vars, t.part)
	}
	return vars
}

// Check returns an error of type *NameError if the condition has a secret, or a
// variable that classOf does not know.
func (c Condition) Check(classOf func(name string) (Class, bool)) error {
	return checkVariables(c.variables(), condition, classOf)
}

// Holds reports whether the condition is true. A name that lookup does not
// supply is empty. Values are compared byte by byte; nothing in them is
// substituted.
func (c Condition) Holds(lookup Lookup) bool {
	for _, t := range c.terms {
		v, _ := lookup.value(t.name)
		if (v.Text == t.literal) == t.negated {
			return false
		}
	}
	return true
}

// conditionParser parses text from offset at.
type conditionParser struct {
	text string
	at   int
}

func (p *conditionParser) rest() string { return p.text[p.at:] }

func (p *conditionParser) skipSpace() {
	p.at = len(p.text) - len(strings.TrimLeftFunc(p.rest(), unicode.IsSpace))
}

// skip skips token, if it is next.
func (p *conditionParser) skip(token string) bool {
	if !strings.HasPrefix(p.rest(), token) {
		return false
	}
	p.at += len(token)
	return true
}

// term parses a comparison.
func (p *conditionParser) term() (term, error) {
	p.skipSpace()
	t := term{part: part{offset: p.at}}
	n := lengthOfName(p.rest())
	switch {
	case p.rest() == "":
		return term{}, syntaxError(p.at, "a comparison is missing: write NAME == literal or NAME != literal")
	case strings.HasPrefix(p.rest(), "$"):
		return term{}, syntaxError(p.at, "nothing is substituted in a condition: write the name without $ and braces")
	case n == 0:
		return term{}, syntaxError(p.at, "%s begins no name: write NAME == literal or NAME != literal", firstRune(p.rest()))
	}
	t.name = p.rest()[:n]
	p.at += n
	p.skipSpace()
	switch {
	case p.skip("=="):
	case p.skip("!="):
		t.negated = true
	default:
		return term{}, syntaxError(p.at, "== or != is missing after %s: there are no other operators", truncate(t.name))
	}
	p.skipSpace()
	var err error
	t.literal, err = p.literal()
	return t, err
}

// special are characters that a literal has only in quotes: they look like
// syntax that does not exist.
const special = "\"'`“”‘’=!&|<>(){}[]$*?,;"

// literal parses a literal.
func (p *conditionParser) literal() (string, error) {
	rest := p.rest()
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		n := strings.IndexByte(rest[1:], rest[0])
		if n < 0 {
			return "", syntaxError(p.at, "a literal without a closing %c", rest[0])
		}
		p.at += n + 2
		return rest[1 : 1+n], nil
	}
	n := strings.IndexFunc(rest, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(special, r)
	})
	if n < 0 {
		n = len(rest)
	}
	if n == 0 {
		return "", syntaxError(p.at, `a literal is missing: put special characters in quotes, and write "" for an empty value`)
	}
	p.at += n
	return rest[:n], nil
}

// errAfterTerm returns the error for text after a comparison that is not &&.
func (p *conditionParser) errAfterTerm() error {
	rest := p.rest()
	switch {
	case strings.HasPrefix(rest, "||"):
		return syntaxError(p.at, "there is no ||: write two hooks, or decide in a script")
	case strings.HasPrefix(rest, "&"):
		return syntaxError(p.at, "comparisons are joined by &&")
	}
	return syntaxError(p.at, "%s follows a comparison: join comparisons by &&, and put a literal with spaces or special characters in quotes", firstRune(rest))
}
