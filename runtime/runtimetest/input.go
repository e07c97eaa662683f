package runtimetest

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// inputCases are commands that cannot start, each with its reason. None of
// them has a result, and none leaves anything.
func inputCases(t *testing.T, s *suite) {
	c := s.start(t)
	c.mustExec(t, "write", "text", "not a program")
	c.mustExec(t, "mkdir", "directory", "755")
	c.mustExec(t, "write", "runnable-text", "not a program, and no #! either")
	c.mustExec(t, "chmod", "runnable-text", "755")
	cases := []struct {
		name string
		cmd  runtime.Command
		want runtime.StartReason
	}{
		{"no such program", runtime.Command{Args: []string{"no-such-program"}}, runtime.StartBinaryNotFound},
		{"no such path", runtime.Command{Args: []string{"/no/such/program"}}, runtime.StartBinaryNotFound},
		{"not executable", runtime.Command{Args: []string{c.path(t, "/data/text")}}, runtime.StartNotExecutable},
		{"a directory", runtime.Command{Args: []string{c.path(t, "/data/directory")}}, runtime.StartNotExecutable},
		{"no format", runtime.Command{Args: []string{c.path(t, "/data/runnable-text")}}, runtime.StartNotExecutable},
		{"no such workdir", runtime.Command{Args: []string{c.testprog, "pwd"}, Workdir: "/no/such"}, runtime.StartWorkdirNotFound},
		{"a file as workdir", runtime.Command{Args: []string{c.testprog, "pwd"}, Workdir: "/data/text"}, runtime.StartWorkdirNotFound},
		{"no such user", runtime.Command{Args: []string{c.testprog, "id"}, User: "no-such-user"}, runtime.StartUserNotFound},
		{"no such group", runtime.Command{Args: []string{c.testprog, "id"}, User: "0:no-such-group"}, runtime.StartUserNotFound},
		{"no argv", runtime.Command{}, runtime.StartBadInput},
		{"empty argv[0]", runtime.Command{Args: []string{""}}, runtime.StartBadInput},
		{"NUL in argv", c.command("echo", "a\x00b"), runtime.StartBadInput},
		{"one huge argument", c.command("echo", strings.Repeat("x", 200<<10)), runtime.StartBadInput},
		{"huge argv", c.command("echo", strings.Repeat("x", 5<<20)), runtime.StartBadInput},
		{"NUL in the environment", runtime.Command{Args: []string{c.testprog, "env"},
			Environment: map[string]string{"A": "\x00"}}, runtime.StartBadInput},
		{"too much stdin", runtime.Command{Args: []string{c.testprog, "cat"},
			Stdin: make([]byte, runtime.MaxStdin+1)}, runtime.StartBadInput},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			result, err := c.exec(t, k.cmd)
			require.Equal(t, k.want, startError(t, err))
			require.Zero(t, result)
		})
	}
	require.Equal(t, "fine\n", c.mustExec(t, "echo", "fine"))
}
