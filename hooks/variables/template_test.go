package variables

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// values are the variables of the tests: T is trusted, U untrusted, S a secret,
// C configured, E trusted and empty.
var values = map[string]Value{
	"T": {"t-1", Trusted}, "U": {`u/"&?`, Untrusted}, "S": {"s3cret/%2F", Secret}, "C": {"c/d", Configured}, "E": {"", Trusted},
	"HTTP": {"https", Configured}, "HOST": {"h.example:8443", Configured}, "BASE": {"https://base.example/hook?k=v", Secret}, "NUM": {"12", Trusted},
}

// lookup looks up in the values with those of more.
func lookup(more ...map[string]Value) Lookup {
	return func(name string) (Value, bool) {
		for _, m := range append(more, values) {
			if v, ok := m[name]; ok {
				return v, true
			}
		}
		return Value{}, false
	}
}

// classOf is the class of the values of the tests.
func classOf(name string) (Class, bool) {
	v, ok := values[name]
	return v.Class, ok
}

// parse parses a template.
func parse(t testing.TB, text string) Template {
	t.Helper()
	template, err := ParseTemplate(text)
	require.NoError(t, err, text)
	return template
}

// A template has the variables and the literal text that its author wrote.
func TestParseTemplate(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"a":                  "a",
		"$":                  "$",
		"$a $$ a$":           "$a $$ a$",
		"${T}":               "t-1",
		"a${T}b${T}${NUM}":   "at-1bt-112",
		"$${T}":              "${T}",
		"$${":                "${",
		"$$${T}":             "$${T}",
		"$${${T}}":           "${t-1}",
		"${UNKNOWN}":         "${UNKNOWN}",
		"${a.b-c_1}":         "${a.b-c_1}",
		"}{$}":               "}{$}",
		"ü${T}😀":             "üt-1😀",
		"$(T) $T {T} ${S}":   "$(T) $T {T} ${S}", // a secret is not for environments
		"$${a} ${U}":         `${a} u/"&?`,
		"\x00${T}":           "\x00t-1",
		"a}${E}b":            "a}b",
		"HOOK_${T}_RESPONSE": "HOOK_t-1_RESPONSE",
	} {
		template := parse(t, text)
		require.Equal(t, want, template.Text(lookup()), text)
		require.Equal(t, text, template.String())
	}
	require.Equal(t, []string{"B", "A"}, parse(t, "${B}${A}${B}$${C}").Names())
	require.Equal(t, "a ${T}", parse(t, "a ${T}").Text(nil))
}

// A syntax error is where the reader has to change the text.
func TestTemplateSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"${":           `at offset 0: "${" has no "}"`,
		"ab${T":        `at offset 2: "${" has no "}"`,
		"${}":          "at offset 0: a variable without a name",
		"${${A}}":      "at offset 2: a variable within a variable",
		"${A${B}}":     "at offset 3: a variable within a variable",
		"${1}":         `at offset 2: '1' begins no name`,
		"${ A}":        `at offset 2: ' ' begins no name`,
		"${A:-x}":      `at offset 3: ':' is not part of a name; there are no defaults and no functions`,
		"${A }":        `at offset 3: ' ' is not part of a name`,
		"${A\n":        `at offset 3: '\n' is not part of a name`,
		"${ü}":         `at offset 2: 'ü' begins no name`,
		"${A\x00}":     `at offset 3: '\x00' is not part of a name`,
		"ok\xff${A}":   "at offset 2: not valid UTF-8",
		"\uFFFD\xc3":   "at offset 3: not valid UTF-8",
		"\xed\xa0\x80": "at offset 0: not valid UTF-8", // a surrogate
	} {
		_, err := ParseTemplate(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.IsType(t, &SyntaxError{}, err)
	}
}

// A literal has no variables.
func TestLiteral(t *testing.T) {
	for _, text := range []string{"", "${T}", "$${", "${", "\xff"} {
		template := Literal(text)
		require.Equal(t, text, template.Text(lookup()))
		require.Equal(t, text, template.String())
		require.Empty(t, template.Names())
	}
	u, err := Literal("https://h/${T}").URL(lookup())
	require.NoError(t, err)
	require.Equal(t, "https://h/$%7BT%7D", u.String())
}

// A value that looks like a variable is not expanded, wherever it stands.
func TestValuesAreNotExpanded(t *testing.T) {
	look := func(name string) (Value, bool) {
		require.Equal(t, "A", name)
		return Value{"${B}$${C}", Trusted}, true
	}
	require.Equal(t, "${B}$${C}", parse(t, "${A}").Text(look))
	head, err := parse(t, "${A}").Header(look)
	require.NoError(t, err)
	require.Equal(t, "${B}$${C}", head)
	body, err := parse(t, `{"a": "${A}"}`).Body(look)
	require.NoError(t, err)
	require.Equal(t, `{"a": "${B}$${C}"}`, body)
	u, err := parse(t, "https://h/${A}").URL(look)
	require.NoError(t, err)
	require.Equal(t, "https://h/%24%7BB%7D%24%24%7BC%7D", u.String())
}

// An environment has no secret, and no NUL that would make the start of a
// process fail.
func TestText(t *testing.T) {
	look := lookup(map[string]Value{"N": {"a\x00b", Untrusted}})
	require.Equal(t, "a\uFFFDb ${S} c/d", parse(t, "${N} ${S} ${C}").Text(look))
	require.ErrorContains(t, parse(t, "${C} ${S}").CheckText(classOf), "S at offset 5 is a secret and may not stand in an environment")
	require.Error(t, parse(t, "${X}${S}").CheckText(classOf))
	require.NoError(t, parse(t, "${T}${U}${C}${X}").CheckText(classOf))
}

// A header has no value of a tenant and no control character.
func TestHeader(t *testing.T) {
	for text, want := range map[string]string{
		"Bearer ${S}": "Bearer s3cret/%2F", "${T}:${C}": "t-1:c/d", "x${E}": "x", "x${X}": "x", "ü": "ü",
	} {
		got, err := parse(t, text).Header(lookup())
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"a\r\nb", "a\n", "\x00", "\t", "\x7f", "\u0085", "\xff", "\x85"} {
		for _, class := range []Class{Trusted, Secret, Configured} {
			_, err := parse(t, "k ${V}").Header(lookup(map[string]Value{"V": {bad, class}}))
			require.ErrorContains(t, err, "V at offset 2 has a control character", "%q", bad)
			require.NotContains(t, err.Error(), bad)
		}
	}
	_, err := parse(t, "a ${U}").Header(lookup())
	require.ErrorContains(t, err, "U at offset 2 is written by a tenant and may not stand in a header")
	require.ErrorContains(t, parse(t, "a ${U}").CheckHeader(classOf), "U at offset 2 is written by a tenant and may not stand in a header")
	require.ErrorContains(t, parse(t, "a$${\n${T}").CheckHeader(classOf), "at offset 4: a control character")
	require.NoError(t, parse(t, "${T}${S}${C}${E}").CheckHeader(classOf))

	var unknown *NameError
	require.ErrorAs(t, parse(t, "${U}${X}").CheckHeader(classOf), &unknown)
	require.True(t, unknown.Unknown)
	require.Equal(t, "X", unknown.Name)
}

// A value whose class was forgotten is untrusted.
func TestClassOfZeroValue(t *testing.T) {
	require.Equal(t, Untrusted, Value{}.Class)
	require.Equal(t, Untrusted, Rule{}.Class)
}

// Variables that had no value are reported, each once.
func TestUses(t *testing.T) {
	var u Uses
	look := u.Watch(lookup())
	require.Equal(t, "t-1${X}", parse(t, "${T}${X}${E}").Text(look))
	_, err := parse(t, "${X}${E}").Header(look)
	require.NoError(t, err)
	require.Equal(t, []string{"X", "E"}, u.Empty)
}

// What takes a template's time is proportional to its length, and its result is
// limited.
func TestLargeTemplates(t *testing.T) {
	const n = 200_000
	many := parse(t, strings.Repeat("${T}", n))
	require.Equal(t, []string{"T"}, many.Names())
	require.Len(t, many.Text(lookup()), 3*n)
	_, err := parse(t, "https://h/"+many.String()).URL(lookup())
	require.NoError(t, err)
	body, err := parse(t, `{"a":["`+many.String()+`"]}`).Body(lookup())
	require.NoError(t, err)
	require.Len(t, body, 3*n+len(`{"a":[""]}`))
	_, err = parse(t, strings.Repeat("$${", n)+strings.Repeat("$", n)).Header(nil)
	require.NoError(t, err)

	large := lookup(map[string]Value{"V": {strings.Repeat("\x01", 1<<20), Untrusted}})
	body, err = parse(t, `"${V}"`).Body(large)
	require.NoError(t, err)
	require.Len(t, body, 6<<20+2)
	_, err = parse(t, `"${V}${V}"`).Body(large)
	require.ErrorIs(t, err, errTooLong)
	_, err = parse(t, "https://h/?"+strings.Repeat("${V}", 3)).URL(large)
	require.ErrorIs(t, err, errTooLong)
	require.LessOrEqual(t, len(parse(t, strings.Repeat("${V}", 100)).Text(large)), maxRendered)
}
