package variables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileValues are values that end a place, or that are read as something else.
var hostileValues = []string{
	"", "x", ".", "..", "../x", "a/../b", "a/b", "?a=b", "&c=d", "#e", "%2e%2e", "%", "@evil:80", "//evil", "\\", "a\r\nb: c", "\x00", "\xff", "\xed\xa0\x80",
	`"`, `\`, `","b":"c`, `\u0022`, "${U}", "$${", "\u2028", "\u202e", "😀", "NaN", "1e999",
}

// variableRegexp is the syntax of a template that parses.
var variableRegexp = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// requireSyntaxError requires that err is at an offset of text.
func requireSyntaxError(t *testing.T, err error, text string) {
	t.Helper()
	var syntax *SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.GreaterOrEqual(t, syntax.Offset, 0)
	require.LessOrEqual(t, syntax.Offset, len(text))
}

// FuzzTemplate: a template is parsed as its syntax describes, and each of its
// variables is looked up once, also if a value looks like a variable.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"a${U}b", "${U}${U}$${U}", "$$${U}", "${", "${${U}}", "${U:-x}", "}$", "\xff", "$${${U}}"} {
		f.Add(text, "${U}")
		f.Add(text, "$${")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		template, err := ParseTemplate(text)
		if err != nil {
			requireSyntaxError(t, err, text)
			return
		}
		require.Equal(t, text, template.String())
		value = strings.ReplaceAll(value, "\x00", "")
		looked := 0
		got := template.Text(func(string) (Value, bool) { looked++; return Value{value, Untrusted}, true })
		found := 0
		want := variableRegexp.ReplaceAllStringFunc(text, func(match string) string {
			if match == "$${" {
				return "${"
			}
			found++
			return value
		})
		require.Equal(t, want, got)
		require.Equal(t, found, looked)
	})
}

// FuzzURL: no trusted or untrusted value changes the shape of a URL.
func FuzzURL(f *testing.F) {
	for _, text := range []string{
		"https://h/${U}/b", "https://h/a?q=${U}&r=${T}", "${S}/${U}", "${S}&a=${U}", "https://${C}/${U}", "https://h/.${U}", "https://h/%${U}", "https://h${U}",
		"https://h?${U}", "https://h/#${U}", "https://h/${C}${U}", "https://h/;${U};/..", "https://u:${S}@h/${U}", "//h/${U}", "https://h/..%2f${T}",
	} {
		for _, value := range hostileValues {
			f.Add(text, value, "https://base/?a=b")
			f.Add(text, value, "h/../")
		}
	}
	f.Fuzz(func(t *testing.T, text, value, raw string) {
		template, err := ParseTemplate(text)
		if err != nil {
			return
		}
		with := func(value string) Lookup {
			return lookup(map[string]Value{"T": {value, Trusted}, "U": {value, Untrusted}, "S": {raw, Secret}, "C": {raw, Configured}})
		}
		u, err := template.URL(with(value))
		if err != nil {
			return
		}
		neutral, err := template.URL(with("x"))
		require.NoError(t, err, u)
		require.Equal(t, shapeOfURL(neutral), shapeOfURL(u))
		if host := template.Host(); host != "" {
			require.Equal(t, host, u.Host)
		}
		again, err := url.Parse(u.String())
		require.NoError(t, err)
		require.Equal(t, shapeOfURL(u), shapeOfURL(again))
	})
}

// shapeOfURL returns what no value may change: scheme, user, host, fragment, the
// number of segments, of dot segments (also if a server decodes the path first)
// and of parameters.
func shapeOfURL(u *url.URL) string {
	dots := 0
	for part := range strings.FieldsFuncSeq(u.Path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			dots++
		}
	}
	count := func(text string, chars ...string) (n []int) {
		for _, c := range chars {
			n = append(n, strings.Count(text, c))
		}
		return n
	}
	return fmt.Sprintf("%q", []any{u.Scheme, u.User.String(), u.Host, u.Fragment, dots, count(u.EscapedPath(), "/", ";", "\\"), count(u.RawQuery, "&", "=", ";", "?", "+"), u.ForceQuery})
}

// FuzzBody: no untrusted value changes the shape of a JSON body, and none is in
// another body or in a header.
func FuzzBody(f *testing.F) {
	for _, text := range []string{
		`{"a": "${U}"}`, `["${U}", ${T}]`, `{"${U}": 1}`, `{"${T}": "${U}"}`, `{"a": ${U}}`, `"\${U}"`, `"\ud83d${U}"`, `a=${U}`, "${U}", `{"a": "b${U}"`, `["${U}" , {"a":"${U}"}]`,
		`{"a": '${U}'}`, ` "${U}:" `, `"${U}"}`, `["\\${U}"]`,
	} {
		for _, value := range hostileValues {
			f.Add(text, value, "1")
			f.Add(text, value, `"`)
		}
	}
	f.Fuzz(func(t *testing.T, text, value, other string) {
		template, err := ParseTemplate(text)
		if err != nil {
			return
		}
		with := func(value string) Lookup {
			return lookup(map[string]Value{"U": {value, Untrusted}, "T": {other, Trusted}, "S": {other, Secret}, "C": {other, Configured}})
		}
		hasUntrusted := slices.Contains(template.Names(), "U")
		head, err := template.Header(with(value))
		if err == nil {
			require.False(t, hasUntrusted)
			require.Equal(t, -1, indexControl(head))
		}
		body, err := template.Body(with(value))
		neutral, errNeutral := template.Body(with("x"))
		require.Equal(t, errNeutral == nil, err == nil)
		if err != nil || !hasUntrusted {
			return
		}
		require.Equal(t, shapeOfJSON(t, neutral), shapeOfJSON(t, body))
		require.NoError(t, template.CheckBody(func(name string) (Class, bool) {
			if v, ok := with("x")(name); ok {
				return v.Class, true
			}
			return Trusted, true // and empty
		}))
	})
}

// shapeOfJSON returns text without what is in its strings, except keys.
func shapeOfJSON(t *testing.T, text string) any {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), text)
	require.False(t, d.More())
	return withoutStrings(v)
}

func withoutStrings(v any) any {
	switch v := v.(type) {
	case string:
		return "s"
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = withoutStrings(v[i])
		}
		return all
	case map[string]any:
		all := maps.Clone(v)
		for key := range v {
			all[key] = withoutStrings(v[key])
		}
		return all
	}
	return v
}

// FuzzCondition: a condition that parses means the same with quoted literals.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{"T == t-1", "T != 'a b' && U == x", `U == "it's"`, "A=b", "A == b || C == d", "${A} == b", "A == \u202e", "A == ''", " A==b&&C!=d ", "A == \xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCondition(text)
		if err != nil {
			requireSyntaxError(t, err, text)
			return
		}
		var quoted []string
		for _, term := range c.terms {
			operator, quote := "==", "'"
			if term.negated {
				operator = "!="
			}
			if strings.Contains(term.literal, quote) {
				quote = `"`
			}
			quoted = append(quoted, term.name+operator+quote+term.literal+quote)
		}
		again, err := ParseCondition(strings.Join(quoted, "&&"))
		require.NoError(t, err, quoted)
		require.Len(t, again.terms, len(c.terms))
		for i, term := range c.terms {
			term.offset = again.terms[i].offset
			require.Equal(t, term, again.terms[i])
		}
		require.Equal(t, c.Holds(lookup()), again.Holds(lookup()))
	})
}

// FuzzPath: a path that parses finds a value in JSON or does not; it fails for
// what is not JSON only.
func FuzzPath(f *testing.F) {
	for _, text := range []string{"$.id", "$.items[0].id", `$["a.b"]`, `$['it\'s']`, "$..a", "$[*]", "$.a-b", `$["\u00fc"]`, "$[99999999999]", "$"} {
		f.Add(text, document)
		f.Add(text, `["\ud800", 1e999]`)
		f.Add(text, "{")
	}
	f.Fuzz(func(t *testing.T, text, data string) {
		p, err := ParsePath(text)
		if err != nil {
			requireSyntaxError(t, err, text)
			return
		}
		found, ok, err := p.Find([]byte(data))
		require.Equal(t, json.Valid([]byte(data)), err == nil)
		require.False(t, !ok && found != "")
	})
}
