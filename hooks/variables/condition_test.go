package variables

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A condition holds if each of its comparisons does.
func TestCondition(t *testing.T) {
	look := lookup(map[string]Value{"PHASE": {"error", Trusted}, "ACTIVITY": {"waiting for ${T}", Untrusted}, "CODE": {"-1", Trusted}, "IMG": {"r.io/a:1@sha256:0", Trusted}})
	for text, want := range map[string]bool{
		"PHASE == error":                        true,
		"PHASE==error":                          true,
		"PHASE != error":                        false,
		"PHASE == Error":                        false,
		"PHASE == error && CODE == -1":          true,
		"PHASE == error&&CODE != -1":            false,
		"  PHASE  ==\n\terror  ":                true,
		`PHASE == "error"`:                      true,
		`PHASE == 'error'`:                      true,
		"ACTIVITY == 'waiting for ${T}'":        true, // nothing is substituted
		"ACTIVITY == 'waiting for t-1'":         false,
		"UNKNOWN == ''":                         true,
		`UNKNOWN != ""`:                         false,
		"UNKNOWN != x":                          true,
		"IMG == r.io/a:1@sha256:0":              true,
		"PHASE == PHASE":                        false,
		"PHASE == 'a && b' && CODE == -1":       false,
		`PHASE != "a' && 'b"`:                   true,
		"T == t-1 && T != t-2 && T != 'a\x00b'": true,
		"PHASE == ü😀":                           false,
	} {
		c, err := ParseCondition(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c.Holds(look), text)
		require.Equal(t, text, c.String())
	}
	require.True(t, Condition{}.Holds(nil))
	c, err := ParseCondition("B == 1 && A == 2 && B == 3")
	require.NoError(t, err)
	require.Equal(t, []string{"B", "A"}, c.Names())
	require.False(t, c.Holds(nil))
}

// A syntax error is where the reader has to change the text.
func TestConditionSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "at offset 0: a comparison is missing",
		" ":                     "at offset 1: a comparison is missing",
		"A == b &&":             "at offset 9: a comparison is missing",
		"&& A == b":             `at offset 0: '&' begins no name`,
		"A":                     "at offset 1: == or != is missing after A",
		"A = b":                 "at offset 2: == or != is missing after A",
		"A < b":                 "at offset 2: == or != is missing after A",
		"A =~ b":                "at offset 2: == or != is missing",
		"A ! b":                 "at offset 2: == or != is missing",
		"A ==":                  "at offset 4: a literal is missing",
		"A == && B == c":        "at offset 5: a literal is missing",
		"A === b":               "at offset 4: a literal is missing",
		"A == !b":               "at offset 5: a literal is missing",
		"A == 'b":               "at offset 5: a literal without a closing '",
		`A == "b'`:              `at offset 5: a literal without a closing "`,
		"A == b c":              `at offset 7: 'c' follows a comparison: join comparisons by &&, and put a literal with spaces`,
		"A == b || C == d":      "at offset 7: there is no ||: write two hooks",
		"A == b & C == d":       "at offset 7: comparisons are joined by &&",
		"A == b&C == d":         "at offset 6: comparisons are joined by &&",
		"A == b and C == d":     `at offset 7: 'a' follows`,
		"${A} == b":             "at offset 0: nothing is substituted in a condition",
		"A == ${B}":             "at offset 5: a literal is missing",
		"(A == b)":              `at offset 0: '(' begins no name`,
		"!A == b":               `at offset 0: '!' begins no name`,
		"1 == b":                `at offset 0: '1' begins no name`,
		"'A' == b":              `at offset 0: '\'' begins no name`,
		"ü == b":                `at offset 0: 'ü' begins no name`,
		"A == b\x00":            `at offset 6: '\x00' follows`,
		"A == b\u202ec":         `at offset 6: '\u202e' follows`,
		"A == \xff":             "at offset 5: not valid UTF-8",
		`A == "b" "c"`:          `at offset 9: '"' follows`,
		"A == “b”":              "at offset 5: a literal is missing: put special characters in quotes",
		"A == b*":               `at offset 6: '*' follows`,
		"A == b,c":              `at offset 6: ',' follows`,
		`A == b"c"`:             `at offset 6: '"' follows`,
		strings.Repeat("A", 99): "at offset 99: == or != is missing after " + strings.Repeat("A", 60) + "…",
	} {
		_, err := ParseCondition(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.IsType(t, &SyntaxError{}, err)
	}
}

// A condition compares no secret: whether it ran would reveal it.
func TestConditionCheck(t *testing.T) {
	for text, want := range map[string]string{
		"T == a && S == b": "S at offset 10 is a secret and may not stand in a condition",
		"T == a && X == b": "X at offset 10 is not a variable that is available here",
	} {
		c, err := ParseCondition(text)
		require.NoError(t, err)
		require.ErrorContains(t, c.Check(classOf), want)
	}
	c, err := ParseCondition("T == a && U == b && C != c")
	require.NoError(t, err)
	require.NoError(t, c.Check(classOf))
}

// What takes a condition's time is proportional to its length.
func TestLargeConditions(t *testing.T) {
	const n = 1 << 20
	for _, text := range []string{
		strings.Repeat("A", n), "A == " + strings.Repeat("b", n), "A == '" + strings.Repeat("b", n), strings.Repeat(" ", n), strings.Repeat("&", n),
		strings.Repeat("A == b && ", n/10) + "A == b", strings.Repeat("'", n), "A == " + strings.Repeat("ü", n),
	} {
		c, err := ParseCondition(text)
		if err == nil {
			c.Holds(lookup())
			require.Equal(t, []string{"A"}, c.Names())
			continue
		}
		require.Less(t, len(err.Error()), 300)
	}
}
