package jsonvalue_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/jsonvalue"
)

func nested(depth int) string {
	return strings.Repeat(`{"a":[`, depth/2) + strings.Repeat("[", depth%2) + strings.Repeat("]", depth%2) + strings.Repeat("]}", depth/2)
}

func TestCompact(t *testing.T) {
	for value, want := range map[string]string{
		"":                                    "",
		" \n\t":                               "",
		" { \"a\" : [ 1.50, \"a b\" ] } ":     `{"a":[1.50,"a b"]}`,
		"null":                                "null",
		"12345678901234567890.1e5":            "12345678901234567890.1e5",
		nested(jsonvalue.MaxDepth):            nested(jsonvalue.MaxDepth),
		`"` + strings.Repeat("[", 2000) + `"`: `"` + strings.Repeat("[", 2000) + `"`,
		`"\"` + strings.Repeat("[", 2000) + `\\"`: `"\"` + strings.Repeat("[", 2000) + `\\"`,
		`[` + strings.Repeat("[],", 2000) + `[]]`: `[` + strings.Repeat("[],", 2000) + `[]]`,
	} {
		got, err := jsonvalue.Compact([]byte(value), 10_000)
		require.NoError(t, err, "%.100s", value)
		require.Equal(t, want, string(got))
	}
}

// What is refused is not quoted, and what is accepted can be read within other
// values.
func TestCompactRefuses(t *testing.T) {
	for value, want := range map[string]string{
		"secret":                       "is not JSON",
		`{"secret": }`:                 "is not JSON",
		"1 2":                          "is not JSON",
		"\"secret\xff\"":               "is not UTF-8",
		nested(jsonvalue.MaxDepth + 1): "is nested more than 1000 levels deep",
		`["\\",` + nested(jsonvalue.MaxDepth) + `]`: "is nested more than 1000 levels deep",
		nested(20_000): "has 80000 bytes, more than 10000",
	} {
		_, err := jsonvalue.Compact([]byte(value), 10_000)
		require.EqualError(t, err, want, "%.100s", value)
		require.Equal(t, strings.HasPrefix(want, "has "), errors.Is(err, jsonvalue.ErrTooLong))
	}
	got, err := jsonvalue.Compact([]byte(nested(jsonvalue.MaxDepth)), 10_000)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{"items": []any{map[string]any{"value": got}}})
	require.NoError(t, err)
	var read any
	require.NoError(t, json.Unmarshal(text, &read))
}

// Escaped JSON has no unsafe character and is the same value.
func TestEscaped(t *testing.T) {
	isUnsafe := func(r rune) bool { return r == 0x7f || r == 0x85 || r == 0x202e || r == 0xe0001 }
	for given, want := range map[string]string{
		`{"a":[1,"\u001b \\ é"]}`:                         `{"a":[1,"\u001b \\ é"]}`,
		"{\"\u0085\":\"\x7f\u202e\U000e0001\U0001f600\"}": `{"\u0085":"\u007f\u202e\udb40\udc01😀"}`,
		"": "",
	} {
		got := jsonvalue.Escaped([]byte(given), isUnsafe)
		require.Equal(t, want, string(got))
		if given != "" {
			require.JSONEq(t, given, string(got))
		}
	}
}
