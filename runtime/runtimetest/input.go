package runtimetest

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// inputCases are commands that cannot start, each with its reason. None of
// them has a result, and none leaves anything behind.
func inputCases(t *testing.T, s *suite) {
	c := s.start(t)
	c.ok(t, "write", "text", "no program")
	c.ok(t, "mkdir", "folder", "755")
	c.ok(t, "write", "runnable-text", "no program, and no #! either")
	c.ok(t, "chmod", "runnable-text", "755")
	cases := []struct {
		name string
		cmd  runtime.Command
		want runtime.StartReason
	}{
		{"no such program", runtime.Command{Args: []string{"no-such-program"}}, runtime.StartNoBinary},
		{"no such path", runtime.Command{Args: []string{"/no/such/program"}}, runtime.StartNoBinary},
		{"not executable", runtime.Command{Args: []string{c.path(t, "/data/text")}}, runtime.StartNotExec},
		{"a folder", runtime.Command{Args: []string{c.path(t, "/data/folder")}}, runtime.StartNotExec},
		{"no format", runtime.Command{Args: []string{c.path(t, "/data/runnable-text")}}, runtime.StartNotExec},
		{"no such workdir", runtime.Command{Args: []string{c.box, "pwd"}, Workdir: "/no/such"}, runtime.StartNoWorkdir},
		{"a file as workdir", runtime.Command{Args: []string{c.box, "pwd"}, Workdir: "/data/text"}, runtime.StartNoWorkdir},
		{"no such user", runtime.Command{Args: []string{c.box, "id"}, User: "no-such-user"}, runtime.StartNoUser},
		{"no such group", runtime.Command{Args: []string{c.box, "id"}, User: "0:no-such-group"}, runtime.StartNoUser},
		{"no argv", runtime.Command{}, runtime.StartBadInput},
		{"empty argv[0]", runtime.Command{Args: []string{""}}, runtime.StartBadInput},
		{"NUL in argv", c.command("echo", "a\x00b"), runtime.StartBadInput},
		{"one huge argument", c.command("echo", strings.Repeat("x", 200<<10)), runtime.StartBadInput},
		{"huge argv", c.command("echo", strings.Repeat("x", 5<<20)), runtime.StartBadInput},
		{"NUL in the environment", runtime.Command{Args: []string{c.box, "env"},
			Environment: map[string]string{"A": "\x00"}}, runtime.StartBadInput},
		{"too much stdin", runtime.Command{Args: []string{c.box, "cat"},
			Stdin: make([]byte, runtime.MaxStdin+1)}, runtime.StartBadInput},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			result, err := c.run(t, k.cmd)
			require.Equal(t, k.want, startError(t, err))
			require.Zero(t, result)
		})
	}
	require.Equal(t, "fine\n", c.ok(t, "echo", "fine"))
}
