package workload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a shell does not accept is an error at its line. What is forbidden is an
// error in the form that forbids it, else a note, and the server accepts both.
func TestLint(t *testing.T) {
	tests := []struct {
		hooks  string
		errors []string
		notes  []string
	}{
		{`
  post_claim:
    - script: |
        set -e
        if true; then
          rm -rf /data/*
        fi
    - script: |
        a
          b (
    - { command: [sh, -c, "rm -fr x"] }
    - { command: [sh, -c, "fi"], name: x }
    - { command: [nohup, shred, x] }
    - { command: [bash, -c, "set -e; a $x"] }
    - { script: "if a:", shell: [python3] }
    - { script: "x=(a)", shell: [bash] }
    - { command: [curl, x] }
`, []string{
			"w.yaml:12:11: hooks.post_claim[1].script: is not valid for its shell: `foo(` must be followed by `)`",
			"w.yaml:14:27: hooks.post_claim[3].command[2]: is not valid for its shell: `fi` can only be used to end an `if`",
		}, []string{
			"w.yaml:8:11: note: hooks.post_claim[0].script: has rm -rf, which removes directories without asking (name the files, or write rm -r)",
			"w.yaml:13:27: note: hooks.post_claim[2].command[2]: has rm -rf, which removes directories without asking (name the files, or write rm -r)",
			"w.yaml:15:26: note: hooks.post_claim[4].command[1]: has shred, which overwrites files (write rm)",
			`w.yaml:16:29: note: hooks.post_claim[5].command[2]: unquoted variable: it is split at spaces, and * in it is replaced by names of files (write "$NAME")`,
		}},
		{`
  pre_release: |
    mkfs x || true
    curl x
`, []string{"w.yaml:5:5: hooks.pre_release: has mkfs, which erases a file system (prepare file systems elsewhere)"}, []string{
			"w.yaml:6:5: note: hooks.pre_release: has curl, which uses the network (write an http hook, which the server sends)",
		}},
		{`
  - { name: a, on: [pre_stop, post_start], blocking: true, action: { type: script, command: [rm, -rf, x] } }
`, nil, []string{"w.yaml:4:94: note: hooks[0].action.command[0]: has rm -rf, which removes directories without asking (name the files, or write rm -r)"}},
		{`
  post_claim:
    - script: >
        set -e

        a $x
`, nil, []string{`w.yaml:5:15: note: hooks.post_claim[0].script: unquoted variable: it is split at spaces, and * in it is replaced by names of files (write "$NAME")`}},
	}
	for _, test := range tests {
		source := "id: w\nimage: x\nhooks:" + strings.ReplaceAll(test.hooks, "pre_stop", "pre-stop")
		w, err := Parse([]byte(source), "w.yaml")
		require.NoError(t, err)
		invalid, notes := w.Lint("w.yaml")
		var gotErrors, gotNotes []string
		for _, e := range invalid {
			gotErrors = append(gotErrors, e.String())
		}
		for _, n := range notes {
			gotNotes = append(gotNotes, n.String())
		}
		require.Equal(t, test.errors, gotErrors)
		require.Equal(t, test.notes, gotNotes)
	}
}
