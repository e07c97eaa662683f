package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// The examples of docs/from-claim-to-request.md work as they are, but for the port:
// on the process backend it is one of the machine's.
func TestFromClaimToRequest(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/from-claim-to-request.md")
	require.NoError(t, err)
	const key = "the-key-of-the-examples"
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte(key+"\n"), 0o600))
	s := serve(t, processBackend{}, "--api-key-file", keys)
	s.Client, err = client.New(s.base, key)
	require.NoError(t, err)
	port := freePort(t)
	text := strings.Replace(workload(t, s.rt, "greeter", fmt.Sprintf("ports: [%d]\npool: { min_idle: 0, max_size: 1 }\n", port)),
		", idle]", fmt.Sprintf(", web, \"127.0.0.1:%d\"]", port), 1)
	text += fmt.Sprintf("healthcheck: { test: [CMD, bash, -c, \"exec 3<>/dev/tcp/127.0.0.1/%d\"], interval: 1s, start_period: 20s }\n", port)
	_, err = s.Apply(t.Context(), "greeter", []byte(text))
	require.NoError(t, err)

	for _, tt := range []struct {
		language string
		require  string // the name that makes a skip a failure
		needs    []string
		command  func(t *testing.T, file string) []string
		rest     string // of the output, after what the program answers
	}{
		{"sh", "shells", []string{"curl", "jq"}, func(_ *testing.T, file string) []string { return []string{"sh", "-eu", file} }, "active\nreleased\n"},
		{"go", "shells", []string{"go"}, func(_ *testing.T, file string) []string { return []string{"go", "run", file} }, ""},
		{"python", "python", []string{"python3"}, func(_ *testing.T, file string) []string { return []string{"python3", file} }, ""},
		{"ts", "node", []string{"node"}, compileTypeScript, ""},
	} {
		t.Run(tt.language, func(t *testing.T) {
			for _, name := range tt.needs {
				if _, err := exec.LookPath(name); err != nil {
					testenv.Skip(t, tt.require, "there is no %s: %v", name, err)
				}
			}
			block := regexp.MustCompile("(?s)```" + tt.language + "\n(.*?)```").FindSubmatch(page)
			require.NotNil(t, block)
			file := filepath.Join(t.TempDir(), "example."+tt.language)
			source := strings.ReplaceAll(string(block[1]), "8080", fmt.Sprint(port))
			require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
			command := tt.command(t, file)
			c := exec.CommandContext(t.Context(), command[0], command[1:]...)
			c.Env = environment("HOSTLER_SERVER="+s.base, "HOSTLER_API_KEY="+key, "PYTHONPATH="+absolute(t, "../clients/python"), "PYTHONDONTWRITEBYTECODE=1")
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "GET / ", "what the program in the container answers")
			require.True(t, strings.HasSuffix(string(out), tt.rest), "%s", out)
			claims, err := s.Claims(t.Context(), client.ClaimFilter{Workload: "greeter"})
			require.NoError(t, err)
			require.Empty(t, claims, "it is released")
		})
	}
}

// compileTypeScript compiles a program next to the client that it imports, and returns
// the command that runs it.
func compileTypeScript(t *testing.T, file string) []string {
	t.Helper()
	client, dir := absolute(t, "../clients/typescript"), filepath.Dir(file)
	node := requireNode(t, client)
	compile := func(args ...string) {
		c := exec.CommandContext(t.Context(), node, append([]string{filepath.Join(client, "node_modules/typescript/bin/tsc")}, args...)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	installed := filepath.Join(dir, "node_modules/@hostler/client")
	compile("-p", client, "--outDir", filepath.Join(installed, "dist"))
	about, err := os.ReadFile(filepath.Join(client, "package.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(installed, "package.json"), about, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	compile("--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.asynciterable,esnext.disposable", file)
	return []string{node, strings.TrimSuffix(file, ".ts") + ".js"}
}

func absolute(t *testing.T, path string) string {
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}
