package activity

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPattern bounds a pattern in bytes: that of a tenant's name.
const maxPattern = 200

// Pattern matches names: one name, or all with a prefix. The zero value matches only
// the empty name.
type Pattern struct {
	text     string
	isPrefix bool
}

// Anything is the pattern that matches every name, also the empty one.
var Anything = Pattern{isPrefix: true}

// Exactly returns the pattern that matches this name only, whatever characters it has.
func Exactly(name string) Pattern { return Pattern{text: name} }

// ParsePattern reads a name, or a prefix that a * follows. A name that ends in * is
// written with \* at its end.
func ParsePattern(text string) (Pattern, error) {
	if text == "" || len(text) > maxPattern || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return Pattern{}, fmt.Errorf("pattern %.40q: it has 1 to %d bytes of text", text, maxPattern)
	}
	if name, ok := strings.CutSuffix(text, `\*`); ok {
		return Exactly(name + "*"), nil
	}
	prefix, ok := strings.CutSuffix(text, "*")
	if strings.Contains(prefix, "*") {
		return Pattern{}, fmt.Errorf("pattern %.40q: a * may be only at the end", text)
	}
	return Pattern{text: prefix, isPrefix: ok}, nil
}

// Matches reports whether the pattern matches a name.
func (p Pattern) Matches(name string) bool {
	if p.isPrefix {
		return strings.HasPrefix(name, p.text)
	}
	return name == p.text
}

// Name returns the name if the pattern matches only one.
func (p Pattern) Name() (name string, ok bool) { return p.text, !p.isPrefix && p.text != "" }

// Prefix returns the prefix of the names that the pattern matches, if it matches all
// that have it.
func (p Pattern) Prefix() (prefix string, ok bool) { return p.text, p.isPrefix }

// String returns the text that ParsePattern reads.
func (p Pattern) String() string {
	if p.isPrefix {
		return p.text + "*"
	}
	if name, ok := strings.CutSuffix(p.text, "*"); ok {
		return name + `\*`
	}
	return p.text
}

// MarshalText implements encoding.TextMarshaler.
func (p Pattern) MarshalText() ([]byte, error) {
	if p.text == "" && !p.isPrefix {
		return nil, errors.New("a pattern without text")
	}
	return []byte(p.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Pattern) UnmarshalText(text []byte) error {
	parsed, err := ParsePattern(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

// Selector selects things by their tenant and their workload, and by their claim
// unless that is empty. All must match.
type Selector struct {
	Tenant   Pattern
	Workload Pattern
	Claim    string
	Owned    bool // only what has a tenant
}

// Scope is what a reader may see: what at least one of its selectors selects. A nil
// *Scope is everything, one without selectors is nothing.
type Scope []Selector

// Includes reports whether the reader may see something of a tenant, a workload and
// a claim, which are empty where it has none.
func (s *Scope) Includes(tenant, workload, claim string) bool {
	if s == nil {
		return true
	}
	for _, row := range *s {
		if row.Tenant.Matches(tenant) && row.Workload.Matches(workload) &&
			(row.Claim == "" || row.Claim == claim) && (!row.Owned || tenant != "") {
			return true
		}
	}
	return false
}
