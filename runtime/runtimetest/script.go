package runtimetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// scriptCases are commands with a script.
func scriptCases(t *testing.T, s *suite) {
	cases := []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"text and stdin", scriptText},
		{"users", scriptUsers},
		{"workdir", scriptWorkdir},
		{"no shell", scriptWithoutShell},
		{"invalid text", scriptInvalid},
		{"other users cannot read it", scriptUnreadable},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, s)
		})
	}
}

// script returns a command whose shell prints the script and its stdin. The
// shell fails if the text is in its argv or environment, or can be changed.
func (c *container) script(text string) runtime.Command {
	cmd := c.command("shell")
	cmd.Script = text
	return cmd
}

func scriptText(t *testing.T, s *suite) {
	for _, readOnly := range []bool{false, true} {
		c := s.start(t, func(spec *runtime.Spec) { spec.ReadOnly = readOnly })
		for _, text := range []string{"§", "echo 'a\"$b'\n€\n", strings.Repeat("0123456789abcde\n", runtime.MaxScript/16)} {
			cmd := c.script(text)
			cmd.Stdin = []byte("the envelope")
			result, err := c.exec(t, cmd)
			require.NoError(t, err)
			require.True(t, result.OK(), "%+v", result)
			require.Equal(t, int64(len(text)+len(cmd.Stdin)), result.Stdout.Total)
			if !result.Stdout.Truncated {
				require.Equal(t, text+"the envelope", result.Stdout.String())
			}
		}
	}
}

func scriptUsers(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.SingleUser, "to run scripts as another user") {
		return
	}
	c := s.start(t)
	for _, user := range []string{"0:0", "1234:4321"} {
		cmd := c.script("text for " + user)
		cmd.User, cmd.Workdir = user, "/"
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
		require.Equal(t, cmd.Script, result.Stdout.String())
	}
}

func scriptWorkdir(t *testing.T, s *suite) {
	c := s.start(t)
	c.mustExec(t, "write", "sub/file", "x")
	cmd := c.command("pwd")
	cmd.Script, cmd.Workdir = "text", "/data/sub"
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.Equal(t, c.path(t, "/data/sub")+"\n", result.Stdout.String())
}

// The reason names the shell.
func scriptWithoutShell(t *testing.T, s *suite) {
	c := s.start(t)
	_, err := c.exec(t, runtime.Command{Args: []string{"/no/such/shell"}, Script: "exit 0"})
	require.Equal(t, runtime.StartBinaryNotFound, startError(t, err))
	require.ErrorContains(t, err, "the image has no /no/such/shell")
}

func scriptInvalid(t *testing.T, s *suite) {
	c := s.start(t)
	for _, text := range []string{"a\x00b", strings.Repeat("x", runtime.MaxScript+1)} {
		result, err := c.exec(t, c.script(text))
		require.Equal(t, runtime.StartBadInput, startError(t, err))
		require.Zero(t, result)
	}
}

// While a script runs, processes of other users cannot open it.
func scriptUnreadable(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.SingleUser || s.Limitations.NoKernel, "to run scripts as another user") {
		return
	}
	c := s.start(t)
	marker := newMarker()
	cmd := c.command("hang", marker)
	cmd.Script, cmd.User, cmd.Workdir = "secret text", "1234:4321", "/"
	done := make(chan struct{})
	go func() { // ends with the command, which is killed below
		defer close(done)
		_, _ = c.rt.Exec(t.Context(), c.id, cmd)
	}()
	var pid, argv string
	testenv.AwaitTrue(t, "the script runs", func() bool {
		pid, argv, _ = strings.Cut(strings.TrimSpace(c.mustExec(t, "ps", marker)), " ")
		return pid != ""
	})
	path := "/proc/" + pid + strings.TrimPrefix(argv[strings.LastIndex(argv, " ")+1:], "/proc/self")
	for user, readable := range map[string]bool{"1234:4321": true, "0:0": false, "1235:4321": false} {
		read := c.command("read", path)
		read.User, read.Workdir = user, "/"
		result, err := c.exec(t, read)
		require.NoError(t, err)
		require.Equal(t, readable, result.OK(), "as %q: %+v", user, result)
		require.Equal(t, readable, strings.Contains(result.Stdout.String(), cmd.Script), "as %q", user)
	}
	stop := c.command("kill", pid, "KILL")
	stop.User, stop.Workdir = cmd.User, "/"
	_, err := c.exec(t, stop)
	require.NoError(t, err)
	<-done
}
