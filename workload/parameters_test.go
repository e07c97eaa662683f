package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parameterText is a workload with these parameters, from line 4.
func parameterText(parameters string) string {
	return "id: w\nimage: box\nparameters:\n" + parameters
}

// Errors in parameters have their line and column.
func TestParseRejectsParameters(t *testing.T) {
	many := ""
	for i := range MaxParameters + 1 {
		many += fmt.Sprintf("  p%d: {}\n", i)
	}
	for text, want := range map[string]string{
		"  Region: {}":              `4:3 parameters.Region "Region" is not the name of a parameter`,
		"  a: { pattern: '(' }":     "4:17 parameters.a.pattern is not a regular expression",
		"  a: { pattern: '(?=a)' }": "4:17 parameters.a.pattern is not a regular expression",
		"  a: { pattern: '(?:" + strings.Repeat("ab?", 300) + "){900}' }":                            "4:17 parameters.a.pattern is, with the patterns before it, larger than 20000",
		"  a: { pattern: '[\\pL\\p{Nd}\\p{So}]{90}' }\n  b: { pattern: '[\\pL\\p{Nd}\\p{So}]{90}' }": "5:17 parameters.b.pattern is, with the patterns before it, larger than 20000",
		"  a: { pattern: '(?:a?){5000}' }":                                                           "4:17 parameters.a.pattern is not a regular expression",
		"  a: { pattern: '(?:a?a?a?a?a?){900}' }":                                                    "4:17 parameters.a.pattern takes, with the patterns before it, more than 16000000 steps",
		"  a: { default: b, pattern: 'a' }":                                                          "4:17 parameters.a.default does not match the pattern a",
		"  a: { default: ab, max_length: 1 }":                                                        "4:17 parameters.a.default is 2 bytes long",
		"  a: { default: b, required: true }":                                                        "4:17 parameters.a.default is never used",
		"  a: { default: long-text, secret: y }":                                                     "4:36 parameters.a.secret",
		"  a: { default: long-one, secret: true }":                                                   "4:17 parameters.a.default is a secret in the file",
		"  a: { secret: true, max_length: 7 }":                                                       "4:34 parameters.a.max_length is 7",
		"  a: { max_length: 4097 }":                                                                  "4:20 parameters.a.max_length is 4097, more than 4096",
		"  a: { max_length: 0 }":                                                                     "4:20 parameters.a.max_length is 0, less than 1",
		"  a: { default: 8 }":                                                                        "4:17 parameters.a.default is a whole number, not text",
		"  a: { patern: b }":                                                                         "4:8 parameters.a.patern is an unknown key",
		"  a: text":                                                                                  "4:6 parameters.a is text, not a mapping",
		"  - a":                                                                                      "4:3 parameters is a list, not a mapping",
		many:                                                                                         "4:3 parameters has 33 parameters, more than 32",
		"  a: {}\nenvironment: { PARAM_A: b }":                                                       `environment.PARAM_A "PARAM_A" is the variable of parameter a`,
		"  a: {}\nsecrets: { PARAM_A: { file: b } }":                                                 `secrets.PARAM_A "PARAM_A" is the variable of parameter a`,
		"  a: {}\nsecrets: { B: { file: parameters.key } }":                                          "secrets.B.file is the key of secret parameters",
		"  a: {}\nsync: { sink: { type: gcs, bucket: b, credentials: { file: parameters.key } }, mappings: [{ path: /d }] }": "sync.sink.credentials.file is the key of secret parameters",
		"  a: {}\nhooks: { post_claim: [{ http: { url: 'https://${PARAM_A}/x' } }] }":                                        "names PARAM_A, which is written by a tenant and may not stand in the scheme or host",
		"  a: {}\nhooks: { post_claim: [{ http: { url: 'https://h/${PARAM_B}' } }] }":                                        "names PARAM_B, which nothing supplies",
		"  a: {}\nhooks: { post_claim: [{ http: { url: 'https://h/', headers: { X: '${PARAM_A}' } } }] }":                    "may not stand in a header",
		"  a: {}\nhooks: { events: [{ name: e, on: [claim], http: { url: 'https://h/${PARAM_A}' } }] }":                      "names PARAM_A, which nothing supplies",
	} {
		_, err := Parse([]byte(parameterText(text)), "w.yaml")
		invalid, ok := errors.AsType[ValidationErrors](err)
		require.True(t, ok, "%s: %v", text, err)
		var all []string
		for _, e := range invalid {
			all = append(all, fmt.Sprintf("%d:%d %s %s", e.Line, e.Column, e.Field, e.Message))
		}
		require.Contains(t, strings.Join(all, "\n"), want, "%s", text)
	}
}

// A pattern matches whole values, also with alternatives and lines, and variables
// have the names of parameters in capital letters.
func TestParameters(t *testing.T) {
	w, err := Parse([]byte(parameterText(`  region: { pattern: "eu|us", default: eu }
  free: {}
  my_token2: { secret: true, pattern: "(?m)^[a-z]{8}$" }
hooks:
  post_claim:
    - http: { url: "https://h/${PARAM_REGION}?q=${PARAM_MY_TOKEN2}", method: POST, body: '{"a": "${PARAM_FREE}"}' }
      condition: PARAM_MY_TOKEN2 != ""
`)), "w.yaml")
	require.NoError(t, err)
	for value, ok := range map[string]bool{"eu": true, "us": true, "eux": false, "xus": false, "eu\n": false, "": false} {
		_, err := w.WithDefaults(map[string]string{"region": value})
		require.Equal(t, ok, err == nil, "%q: %v", value, err)
	}
	_, err = w.WithDefaults(map[string]string{"my_token2": "abcdefgh\nx"})
	require.Error(t, err, "flags of a pattern do not unanchor it")
	_, err = w.WithDefaults(map[string]string{"my_token2": "abcdefg"})
	require.ErrorContains(t, err, "shorter than 8 bytes")
	all, err := w.WithDefaults(map[string]string{"free": ""})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"free": "", "region": "eu"}, all)
	for variable, want := range map[string]string{"PARAM_MY_TOKEN2": "my_token2", "PARAM_my_token2": "", "MY_TOKEN2": "", "PARAM_OTHER": "", "PARAM_": ""} {
		name, ok := w.ParameterOf(variable)
		require.Equal(t, want, name)
		require.Equal(t, want != "", ok)
	}
}

// FuzzParameter checks that no value passes that a claim cannot keep, and that an
// error never has it.
func FuzzParameter(f *testing.F) {
	w, err := Parse([]byte(parameterText("  a: { pattern: '[a-z]+', max_length: 64 }\n  b: { secret: true }\n")), "w.yaml")
	require.NoError(f, err)
	f.Add("a", "value")
	f.Add("b", "short")
	f.Add("c", "x")
	f.Add("a", "x\x00\n")
	f.Fuzz(func(t *testing.T, name, value string) {
		all, err := w.WithDefaults(map[string]string{name: value})
		if err != nil {
			if len(value) > 40 && !strings.Contains(name, value) {
				require.NotContains(t, err.Error(), value)
			}
			return
		}
		require.Equal(t, value, all[name])
		require.NotContains(t, value, "\x00")
		require.LessOrEqual(t, len(value), MaxParameterValue)
		if name == "a" {
			require.Empty(t, strings.Trim(value, "abcdefghijklmnopqrstuvwxyz"))
		}
	})
}
