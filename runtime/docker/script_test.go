package docker_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	engineimage "github.com/docker/docker/api/types/image"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// shellScript uses what shells read incrementally, and what reads stdin.
const shellScript = `set -eu
name=$(cat)
cat <<END
from a document: $name
END
( echo "from a subshell" )
for n in 1 2; do echo "line $n"; done
`

const shellScriptOutput = "from a document: it's \"$x\"\nfrom a subshell\nline 1\nline 2\n"

// Real shells run scripts, whatever the user and the root filesystem are. They
// read all of the longest script, and their exit code is the script's.
func TestScriptInShells(t *testing.T) {
	rt := openRuntime(t)
	for shell, args := range map[string][]string{"bash": {"/bin/bash"}, "dash": {"/bin/dash"}, "busybox": {"/bin/busybox", "sh"}} {
		t.Run(shell, func(t *testing.T) {
			image := importShell(t, shell)
			for _, readOnly := range []bool{false, true} {
				id := startContainer(t, rt, func(s *runtime.Spec) { s.Image, s.ReadOnly = image, readOnly })
				for _, user := range []string{"", "1234:4321"} {
					script := func(text string) runtime.Result {
						result, err := rt.Exec(t.Context(), id, runtime.Command{
							Args: args, Script: text, Stdin: []byte(`it's "$x"`), User: user, Workdir: "/tmp"})
						require.NoError(t, err)
						return result
					}
					result := script(shellScript)
					require.True(t, result.OK(), "%+v", result)
					require.Equal(t, shellScriptOutput, result.Stdout.String())
					require.Empty(t, result.Stderr)

					if shell == "dash" && user == "" {
						requireLimitsInShell(t, rt, id, args)
					}
					end := "exit 7"
					longest := strings.Repeat("# filler\n", (runtime.MaxScript-len(end))/len("# filler\n")) + end
					require.Equal(t, 7, script(longest).ExitCode)
				}
			}
		})
	}
}

// Programs that do not handle the signals of limits end with them.
func requireLimitsInShell(t *testing.T, rt *docker.Runtime, id string, args []string) {
	t.Helper()
	for signal, cmd := range map[string]runtime.Command{
		"SIGXCPU": {Script: "while :; do :; done", Limits: runtime.ProcessLimits{CPUTime: time.Second}},
		"SIGXFSZ": {Script: "exec cat /dev/zero >/data/file", Limits: runtime.ProcessLimits{FileSize: 1 << 20}},
	} {
		cmd.Args, cmd.Timeout = args, 5*time.Minute
		result, err := rt.Exec(t.Context(), id, cmd)
		require.NoError(t, err)
		require.Equal(t, signal, result.Signal, "%+v", result)
		require.NotEmpty(t, result.Exceeded)
		require.False(t, result.OOMKilled || result.TimedOut, "%+v", result)
	}
}

// importShell makes an image of a shell of this machine, with cat and the test
// program.
func importShell(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testenv.Skip(t, "shells", "no %s on this machine", name)
	}
	files := map[string]string{"tmp/": ""}
	add := func(name, path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		files[strings.TrimPrefix(name, "/")] = string(content)
	}
	add("box", runtimetest.BuildTestprog(t))
	add("bin/"+name, path)
	add("bin/cat", "/bin/cat")
	libraries, _ := exec.Command("ldd", path, "/bin/cat").Output() // it fails for a static program, after the other one
	for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(libraries), -1) {
		add(library, library)
	}
	image := instance + "/" + name + ":latest"
	require.NoError(t, openRuntime(t).Import(t.Context(), image, rootfs(t, files), `ENV PATH=/bin`))
	t.Cleanup(func() {
		_, err := needEngine(t).ImageRemove(context.Background(), image, engineimage.RemoveOptions{PruneChildren: true})
		require.NoError(t, err)
	})
	return image
}
