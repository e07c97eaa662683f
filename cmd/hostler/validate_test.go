package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeFiles writes files below a new directory, which is the current one.
func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

// A directory stands for its workload files, with --all also for those below it.
// Every file is checked, also behind an invalid one and one that cannot be read.
func TestValidateDirectories(t *testing.T) {
	files := map[string]string{
		"a.yaml":         "id: a\nimage: x\nportz: [80]\n",
		"b.yml":          "id: b\nimage: x:1\nhooks: {post_claim: 'exit 0'}\nhealthcheck: {test: [NONE]}\n",
		"notes.txt":      "no workload",
		".hidden.yaml":   "no: workload\n",
		"sub/c.yaml":     "id: c\nimage: x:1\nhooks: {post_claim: [{command: [x]}]}\nhealthcheck: {test: [NONE]}\n",
		"sub/agent.md":   "---\nid: d\nimage: x:1\nhealthcheck: {test: [NONE]}\n---\nA text.\n",
		"sub/README.md":  "A text.\n",
		".git/e.yaml":    "no: workload\n",
		"empty/file.txt": "",
	}
	tests := []struct {
		args []string
		code int
		want []string // the beginnings of the lines
	}{
		{[]string{"."}, exitFailure, []string{"a.yaml:3:1: portz: ", "b.yml:3:21: note: ", "2 files, 1 invalid: 1 error, 1 note"}},
		{[]string{"b.yml"}, exitOK, []string{"b.yml:3:21: note: "}},
		{[]string{"b.yml", "--strict"}, exitFailure, []string{"b.yml:3:21: note: "}},
		{[]string{"b.yml", "--ci"}, exitFailure, []string{"b.yml:3:21: note: "}},
		{[]string{"sub"}, exitOK, nil},
		{[]string{"sub", "--ci", "--verbose"}, exitOK, []string{"sub/c.yaml: valid", "sub/c.yaml: the hooks of post_claim take at most 32s"}},
		{[]string{"--all", "sub", "--verbose"}, exitOK, []string{
			"sub/agent.md: valid", "sub/c.yaml: valid", "sub/c.yaml: the hooks of", "2 files, 0 invalid: 0 errors, 0 notes",
		}},
		{[]string{"--all"}, exitFailure, []string{"a.yaml:3:1: portz: ", "b.yml:3:21: note: ", "4 files, 1 invalid: 1 error, 1 note"}},
		{[]string{"none.yaml", "empty", "a.yaml", "--verbose"}, exitFailure, []string{
			"none.yaml: read the workload file: ", "empty: the directory has no workload files", "a.yaml:3:1: portz: ",
			"none.yaml: 1 error, 0 notes", "empty: 1 error, 0 notes", "a.yaml: 1 error, 0 notes", "3 files, 3 invalid: 3 errors, 0 notes",
		}},
		{[]string{"sub", "--ci", "sub/c.yaml", "./sub/../sub/c.yaml"}, exitOK, nil},
		{nil, exitUsage, nil},
	}
	writeFiles(t, files)
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, out, errOut := hostler(t, "", append([]string{"validate"}, test.args...)...)
			require.Equal(t, test.code, code, "%s%s", out, errOut)
			got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if out == "" {
				got = nil
			}
			require.Len(t, got, len(test.want), "%s", out)
			for i, want := range test.want {
				require.Truef(t, strings.HasPrefix(got[i], want), "line %d is %q, want %q", i, got[i], want)
			}
		})
	}
}

// --all skips files of other formats, and prints which; a file that is an argument
// is checked. A directory with no other files has no workload files.
func TestValidateSkipsOtherFormats(t *testing.T) {
	writeFiles(t, map[string]string{
		"w.yaml":                "id: w\nimage: x:1\nhealthcheck: {test: [NONE]}\n",
		"broken.yaml":           "id: b\nimage: [\n",
		"deploy/compose.yaml":   "name: x\nservices:\n  web:\n    image: nginx\n",
		"site/post.md":          "---\ntitle: x\n---\nText.\n",
		"site/text.md":          "Text: an example\n\n```\nid: w\nimage: [\n```\n",
		"only/compose/app.yaml": "services: {}\n",
	})
	const skipped = ": skipped: it has none of the fields id, image and pool of a workload"
	code, out, errOut := hostler(t, "", "validate", "--all", "--ci", "w.yaml", "deploy", "site", ".")
	require.Equal(t, exitFailure, code, errOut)
	require.Contains(t, out, "broken.yaml:2:")
	require.NotContains(t, out, "services: ")
	for _, name := range []string{"deploy/compose.yaml", "site/post.md", "only/compose/app.yaml"} {
		require.Equal(t, 1, strings.Count(out, name+skipped+"\n"), out)
	}
	require.NotContains(t, out, "text.md")

	code, out, _ = hostler(t, "", "validate", "deploy/compose.yaml")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "services: ")
	code, out, _ = hostler(t, "", "validate", "--all", "only")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "only: the directory has no workload files")
}

// Copied hooks are checked if the workload that has them is in one of the files,
// in any order.
func TestValidateCopiedHooks(t *testing.T) {
	writeFiles(t, map[string]string{
		"a.yaml":      "id: a\nimage: x\nhooks_from: b\n",
		"b.yaml":      "id: b\nimage: x\nhooks_from: c\n",
		"c.yaml":      "id: c\nimage: x\nhooks: {post_claim: [{command: [x]}]}\n",
		"d.yaml":      "id: d\nimage: x\nenvironment: {HOST: 'https://a.example'}\nhooks: {post_claim: [{webhook: {url: '${HOST}/'}}]}\n",
		"e.yaml":      "id: e\nimage: x\nhooks_from: d\n",
		"loop/f.yaml": "id: f\nimage: x:1\nhooks_from: g\nhealthcheck: {test: [NONE]}\n",
		"loop/g.yaml": "id: g\nimage: x:1\nhooks_from: f\nhealthcheck: {test: [NONE]}\n",
		"same/a.yaml": "id: a\nimage: x\n",
	})
	code, out, _ := hostler(t, "", "validate", "--verbose", "a.yaml", "b.yaml", "c.yaml")
	require.Equal(t, exitOK, code, out)
	require.Contains(t, out, "a.yaml: the hooks of post_claim take at most")

	code, out, _ = hostler(t, "", "validate", "a.yaml", "b.yaml")
	require.Equal(t, exitOK, code, "the server may have the workload: %s", out)

	code, out, _ = hostler(t, "", "validate", "d.yaml", "e.yaml")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "e.yaml:3:13: hooks_from: with the hooks of d, hooks.post_claim[0].webhook.url names HOST, which nothing supplies")

	code, out, _ = hostler(t, "", "validate", "loop")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "loop/g.yaml:3:13: hooks_from: is f, which copies the hooks of this workload")
	require.Contains(t, out, "2 files, 1 invalid: 1 error, 0 notes")

	code, out, _ = hostler(t, "", "validate", "a.yaml", "same")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "same/a.yaml:1:5: id: is also that of a.yaml")
}

// Commands and scripts are judged by validate. The server accepts them, and
// apply prints what is an error.
func TestValidateCommands(t *testing.T) {
	serveTestBackend(t)
	writeFiles(t, map[string]string{
		"note.yaml":  "id: a\nimage: x\nhooks:\n  post_claim:\n    - command: [rm, -rf, x]\n",
		"text.yaml":  "id: c\nimage: x\nhooks:\n  on_blocking_start: |\n    rm -rf /workspace/*\n",
		"error.yaml": "id: b\nimage: x\nhooks:\n  post_claim:\n    - script: |\n        if a; then\n          b\n",
	})
	code, out, _ := hostler(t, "", "validate", "note.yaml")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "note.yaml:5:17: note: hooks.post_claim[0].command[0]: has rm -rf")
	code, _, _ = hostler(t, "", "validate", "--strict", "note.yaml")
	require.Equal(t, exitFailure, code)
	code, out, _ = hostler(t, "", "validate", "text.yaml")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "text.yaml:5:5: hooks.on_blocking_start: has rm -rf")
	code, out, _ = hostler(t, "", "validate", "error.yaml")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "error.yaml:6:9: hooks.post_claim[0].script: is not valid for its shell: ")
	code, _, errOut := hostler(t, "", "apply", "-f", "error.yaml")
	require.Equal(t, exitOK, code)
	require.Contains(t, errOut, "error.yaml:6:9: note: hooks.post_claim[0].script: is not valid for its shell: ")
}

// What a file has of a terminal's control characters reaches no terminal.
func TestValidateControlCharacters(t *testing.T) {
	writeFiles(t, map[string]string{"a.yaml": "id: a\nimage: x\n\"por\\e[2Jtz\": 1\n"})
	code, out, errOut := hostler(t, "", "validate", "a.yaml")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, `por\x1b[2Jtz`)
	require.NotContains(t, out+errOut, "\x1b")
}
