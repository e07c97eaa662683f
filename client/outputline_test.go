package client

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// outputLines are lines of output in the form that the server writes, and in others.
var outputLines = map[string]bool{
	`{"offset":0,"stream":"stdout","data":"aGk="}`:                      true,
	`{"offset":9223372036854775807,"stream":"stderr","data":"aGkK"}`:    true,
	`{"offset":-1,"stream":"stdout","data":""}`:                         true,
	`{"offset": 1,"stream":"stdout","data":"aGk="}`:                     false,
	`{"offset":1e3,"stream":"stdout","data":"aGk="}`:                    false,
	`{"offset":+1,"stream":"stdout","data":"aGk="}`:                     false,
	`{"offset":01,"stream":"stdout","data":"aGk="}`:                     false,
	`{"offset":9223372036854775808,"stream":"stdout","data":"aGk="}`:    false,
	`{"offset":1,"stream":"stdout","data":"aGk"}`:                       false,
	`{"offset":1,"stream":"stdout","data":"aGk=` + "\r" + `"}`:          false,
	`{"offset":1,"stream":"stdout","data":"aGk=` + "\n" + `"}`:          false,
	`{"offset":1,"stream":"stdout","data":"a\u0047k="}`:                 false,
	`{"offset":1,"stream":"stdout","data":"aGk=","data":"aG8="}`:        false,
	`{"offset":1,"stream":"stdout","data":"aGk=","end":{"signal":"x"}}`: false,
	`{"offset":1,"stream":"stdin","data":"aGk="}`:                       false,
	`{"offset":1,"stream":"stdout","data":"aGk="`:                       false,
	`{"offset":1"}`: false,
	`{"offset":1}`:  false,
	`{"offset":"}`:  false,
	`{"stream":"stdout","offset":1,"data":"aGk="}`:  false,
	`{"start":{"offset":5}}`:                        false,
	`{"end":{"exit_code":3}}`:                       false,
	`{"error":{"code":"output_lost","detail":"x"}}`: false,
	``: false,
}

// A line of output means what package json reads in it, with the errors of that.
func TestReadOutputLine(t *testing.T) {
	var r lineReader
	for text, isFast := range outputLines {
		requireAsJSON(t, &r, text)
		_, fast := r.readOutput([]byte(text))
		require.Equal(t, isFast, fast, text)
	}
}

func FuzzReadOutputLine(f *testing.F) {
	for text := range outputLines {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { requireAsJSON(t, new(lineReader), text) })
}

func requireAsJSON(t *testing.T, r *lineReader, text string) {
	t.Helper()
	var want commandLine
	wantErr := json.Unmarshal([]byte(text), &want)
	got, err := r.read([]byte(text))
	require.Equal(t, wantErr == nil, err == nil, "%s: %v, %v", text, wantErr, err)
	if err != nil {
		return
	}
	require.Equal(t, string(want.Data), string(got.Data), text)
	want.Data, got.Data = nil, nil
	require.Equal(t, want, got, text)
}
