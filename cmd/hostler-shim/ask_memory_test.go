package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// The arguments of the commands become the bodies of their requests, with flags in
// any place. What is no value, key or number is a usage error.
func TestAskBodies(t *testing.T) {
	for _, tt := range []struct {
		args []string
		body string // empty: a usage error
	}{
		{[]string{"memory", "put", "plan", "--data", `{"a":"<b>"}`}, `{"key":"plan","value":{"a":"<b>"}}`},
		{[]string{"memory", "put", "--level", "tenant", "plan", "--data", "1", "--if-version", "0"}, `{"level":"tenant","key":"plan","value":1,"if_version":0}`},
		{[]string{"memory", "put", "plan", "--data", "x"}, ""},
		{[]string{"memory", "put", "plan", "--data", ""}, ""},
		{[]string{"memory", "put", "--data", "1"}, ""},
		{[]string{"memory", "put", "a", "b", "--data", "1"}, ""},
		{[]string{"memory", "put", "a", "--data", "1", "--if-version", "1x"}, ""},
		{[]string{"memory", "get", "plan"}, `{"key":"plan"}`},
		{[]string{"memory", "get", "--level", "tenant", "--", "-h"}, `{"level":"tenant","key":"-h"}`},
		{[]string{"memory", "get", "a\xff"}, ""},
		{[]string{"memory", "get"}, ""},
		{[]string{"memory", "get", "a", "--if-version", "1"}, ""},
		{[]string{"memory", "delete", "plan", "--if-version", "7"}, `{"key":"plan","if_version":7}`},
		{[]string{"memory", "list"}, `{"limit":50}`},
		{[]string{"memory", "list", "--prefix", "a/", "--after", "a/b", "--limit", "3"}, `{"prefix":"a/","after":"a/b","limit":3}`},
		{[]string{"memory", "list", "--limit", "51"}, ""},
		{[]string{"memory", "list", "x"}, ""},
		{[]string{"event", "publish", "agent.done", "--data", `{"n":1}`, "--priority", "0"}, `{"type":"agent.done","data":{"n":1},"priority":0}`},
		{[]string{"event", "publish", "agent.done"}, `{"type":"agent.done"}`},
		{[]string{"event", "publish", "agent.done", "--data", "x"}, ""},
		{[]string{"event", "publish", "agent.done", "--priority", "x"}, ""},
		{[]string{"event", "publish"}, ""},
		{[]string{"activity", "thinking", "--tool", "t", "--task", "a b"}, `{"activity":"thinking","tool":"t","task":"a b"}`},
		{[]string{"activity", "--tool", "t"}, ""},
		{[]string{"wait", "--type", "consensus", "--timeout", "90s", "--name", "n", "--context", "{}"}, `{"name":"n","type":"consensus","timeout":"1m30s","context":{}}`},
		{[]string{"wait", "--type", "consensus"}, ""},
		{[]string{"wait", "--timeout", "1s"}, ""},
		{[]string{"wait", "--type", "t", "--timeout", "1s", "x"}, ""},
		{[]string{"wait", "--type", "t", "--timeout", "1s", "--context", "x"}, ""},
	} {
		c, rest := findAskCommand(tt.args)
		require.NotNil(t, c, tt.args)
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		body, err := c.parse(flags, rest)
		require.Equal(t, tt.body == "", err != nil, "%q: %v", tt.args, err)
		if tt.body != "" {
			require.JSONEq(t, tt.body, string(body), tt.args)
			require.NotContains(t, string(body), `\u003c`, "it would be longer")
		}
	}
}

// The answers are printed for people.
func TestAskTexts(t *testing.T) {
	for name, tt := range map[string]struct{ answer, text string }{
		"memory put":    {`{"key":"plan","version":3,"created":true}`, "plan has version 3"},
		"memory get":    {`{"key":"plan","value":{"a":1}}`, `{"a":1}`},
		"memory delete": {`{"deleted":true}`, "deleted"},
		"memory list":   {`{"items":[{"key":"a"},{"key":"b"}],"next":""}`, "a\nb"},
		"event publish": {`{"type":"custom.x","priority":7}`, "published custom.x"},
		"activity":      {`{"activity":"thinking","changed":true}`, "thinking"},
	} {
		for _, c := range askCommands() {
			if c.name == name {
				require.True(t, json.Valid([]byte(tt.answer)))
				require.Equal(t, tt.text, c.text([]byte(tt.answer)))
			}
		}
	}
	require.Equal(t, "there was no value", memoryCommands[2].text([]byte(`{"deleted":false}`)))
}

// A value and the data of a signal are printed as JSON of the same value, without a
// control character.
func TestAskValuesAreTheSame(t *testing.T) {
	const value = "{\"a\":\"\u0085\u009b31m\x7f\\u001b\u202eé\"}"
	for _, c := range askCommands() {
		for output, read := range map[string]func(text []byte) (value []byte){
			"": func(text []byte) []byte { return text },
			"json": func(text []byte) []byte {
				var v struct{ Value, Data json.RawMessage }
				require.NoError(t, json.Unmarshal(text, &v))
				return append(v.Value, v.Data...)
			},
		} {
			field, ok := map[string]string{"memory get": "value", "wait": "data"}[c.name]
			if !ok {
				continue
			}
			var out, errs bytes.Buffer
			require.Equal(t, 0, c.printAnswer([]byte(`{"state":"signalled","`+field+`":`+value+`}`), output, &out, &errs))
			require.JSONEq(t, value, string(read(out.Bytes())), "%s %s", c.name, output)
			require.Equal(t, out.String(), printable(out.String()))
		}
	}
}

// A wait that was signalled is a success with the signal's data. Any other end has
// an exit code of its own.
func TestWaitOutcomes(t *testing.T) {
	for answer, want := range map[string]struct {
		code int
		out  string
	}{
		`{"state":"signalled","data":{"ok":true}}`: {0, "{\"ok\":true}\n"},
		`{"state":"signalled"}`:                    {0, "null\n"},
		`{"state":"timed_out"}`:                    {8, ""},
		`{"state":"aborted"}`:                      {9, ""},
		`{"state":"cancelled"}`:                    {10, ""},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, want.code, waitCommand.printAnswer([]byte(answer), "", &out, &errs), answer)
		require.Equal(t, want.out, out.String(), answer)
		require.Equal(t, want.code == 0, errs.Len() == 0, answer)
	}
}
