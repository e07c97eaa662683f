package variables

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A value in a JSON string is escaped; other values are inserted as they are.
func TestBody(t *testing.T) {
	more := map[string]Value{
		"Q": {"\"\\/\b\r\n\t\x00\x7f\u2028<&>", Untrusted}, "BAD": {"a\xffb\xed\xa0\x80", Untrusted}, "LOW": {`\udc00`, Untrusted},
		"OBJ": {`{"k": [1]}`, Configured}, "KEY": {`a":1,"b`, Configured},
	}
	for text, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		"a=${T}&b=${C}&c=${S}":      "a=t-1&b=c/d&c=s3cret/%2F",
		`{"a": "${T}"}`:             `{"a": "t-1"}`,
		` {"a": "x ${U} y"}` + "\n": ` {"a": "x u/\"&? y"}` + "\n",
		`"${Q}"`:                    `"\"\\/\b\r\n\t\u0000` + "\x7f" + `\u2028<&>"`,
		`["${BAD}"]`:                `["a\ufffdb\ufffd\ufffd\ufffd"]`,
		`"\ud83d${LOW}"`:            `"\ud83d\\udc00"`,
		`"\\${U}"`:                  `"\\u/\"&?"`,
		`{"a": ${NUM}}`:             `{"a": 12}`,
		`{"a": [1${NUM}]}`:          `{"a": [112]}`,
		`{"a": ${OBJ}}`:             `{"a": {"k": [1]}}`,
		`{"${KEY}": "${C}"}`:        `{"a\":1,\"b": "c/d"}`,
		`{"a": "${E}${X}"}`:         `{"a": ""}`,
		`{"a": "b": "${T}"`:         `{"a": "b": "t-1"`, // not JSON
		"${OBJ}":                    `{"k": [1]}`,
		"${T}":                      "t-1", // text
		"12${T}":                    "12t-1",
		`{"k": "$${T}"}`:            `{"k": "${T}"}`,
	} {
		got, err := parse(t, text).Body(lookup(more))
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
}

// A value of a tenant stands only in JSON strings that are not keys.
func TestCheckBody(t *testing.T) {
	for text, want := range map[string]string{
		"a=${U}":                      "U at offset 2 is written by a tenant and may not stand in a body that is not JSON",
		"${U}":                        "U at offset 0 is written by a tenant and may not stand in a body that is not JSON",
		`{"a": ${U}}`:                 "U at offset 6 is written by a tenant and may not stand outside a string of a JSON body: put it in quotes",
		`{"${U}": 1}`:                 "U at offset 2 is written by a tenant and may not stand in the key of a JSON object",
		`{"a${T}${U}" : 1}`:           "U at offset 7 is written by a tenant and may not stand in the key",
		`[{"a": {"x${U}":` + "\n1}}]": "U at offset 10 is written by a tenant and may not stand in the key",
		`{"a": "\${U}"}`:              "U at offset 8 is written by a tenant and may not stand in a body that is not JSON",
		`{"a": "\u00${U}"}`:           "U at offset 11 is written by a tenant and may not stand in a body that is not JSON",
		`{"a": '${U}'}`:               "U at offset 7 is written by a tenant and may not stand in a body that is not JSON",
		`{"a": "${U}"`:                "U at offset 7 is written by a tenant and may not stand in a body that is not JSON",
		`{"a": "b\\"${U}"}`:           "U at offset 11 is written by a tenant and may not stand in a body that is not JSON",
		`{"a": "${U}",}`:              "write a JSON body with the variable in a string; this one is not JSON because of invalid character '}' looking for beginning of object key string",
		`{"a": ${TIMESTAMP}}`:         "TIMESTAMP at offset 6 is text, which is not a JSON value",
		`{"a": "${X}"}`:               "X at offset 7 is not a variable that is available here",
	} {
		template := parse(t, text)
		err := template.CheckBody(func(name string) (Class, bool) {
			if rule, ok := RuleOf(name); ok {
				return rule.Class, true
			}
			return classOf(name)
		})
		require.ErrorContains(t, err, want, text)
		var refused *NameError
		require.ErrorAs(t, err, &refused)
		if refused.Name == "U" {
			_, err := template.Body(lookup())
			require.ErrorContains(t, err, want[:40], text)
		}
	}
	for _, text := range []string{`{"a": "${U}", "b": ["${U}"], "c": ${NUM}, "${T}": "\"${U}:"}`, `"${U}"`, `a=${T}`, ""} {
		require.NoError(t, parse(t, text).CheckBody(classOf), text)
	}
}

// A value outside a string is one JSON value, and the body remains JSON.
func TestValuesOutsideStrings(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": ${V}}`:             "",
		`[${V}]`:                  "",
		`[1${V}]`:                 "V at offset 2 is joined to other text",
		`{"b": "${T}", "a":${V}}`: "",
	} {
		for _, class := range []Class{Trusted, Secret, Configured} {
			for _, value := range []string{`"s"`, "null", `{"k":1}`} {
				_, err := parse(t, text).Body(lookup(map[string]Value{"V": {value, class}}))
				if want == "" {
					require.NoError(t, err, text)
					continue
				}
				require.ErrorContains(t, err, want, text)
			}
			for _, value := range []string{"", "s3cret", `1,"x":2`, `1}`, `"`, "1 2", "nul"} {
				_, err := parse(t, text).Body(lookup(map[string]Value{"V": {value, class}}))
				require.ErrorContains(t, err, "is not a JSON value", "%s %s", text, value)
				require.NotContains(t, err.Error(), "s3cret")
			}
		}
	}
}
