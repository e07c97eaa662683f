package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// Whatever JSON a tenant has chosen, it is printed as YAML that has the same
// values: a list of events does not end at the one of a hostile program.
func TestYAMLHasAnyJSON(t *testing.T) {
	for _, text := range []string{
		`{"b":1,"a":[true,false,null,-2.5,"1","true","null","~","",{},[]],"c":{"d":"two\nlines"}}`,
		`{"a":"\ud83d\ude00","b":"\udb40\udc41"}`,
		`{"` + strings.Repeat("long", 1000) + `":"<<","<<":"*a","?":"- x","#":": "}`,
		"{\"a\":\"\x7f \u0085 \u009b \u2028 \ufeff \ufffe \uffff\",\"\\u0000\":\"\\u001b\"}",
		`"` + strings.Repeat("x", 3000) + `"`, `123456789012345678`, `"2026-01-01"`, `"0x1f"`, `"1_000"`, `"=="`,
	} {
		var want, got any
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		var out strings.Builder
		require.NoError(t, printYAML(&out, json.RawMessage(text)), "%.100s", text)
		require.NoError(t, yaml.Unmarshal([]byte(out.String()), &got), "%.300s", out.String())
		wantText, err := json.Marshal(want)
		require.NoError(t, err)
		gotText, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, string(wantText), string(gotText), "%.300s", out.String())
	}
	var out strings.Builder
	require.NoError(t, printYAML(&out, json.RawMessage(`{"b":1,"a":["x",{"d":[]}]}`)))
	require.Equal(t, "b: 1\na:\n  - x\n  - d: []\n", out.String())
}
