package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
)

// A command has the user and the working directory of the container unless it names
// its own, which is below the container's root. No command names the main process.
func TestCommandDefaults(t *testing.T) {
	s := newSupervisor(shim.Config{Root: "/root-of-it", User: "1234:4321", Workdir: "/root-of-it/data"})
	spec := s.withDefaults(shim.Run{Environment: map[string]string{"A": "1", shim.MainPIDEnv: "1"}})
	require.Equal(t, shim.Run{
		User: "1234:4321", Workdir: "/root-of-it/data", Environment: map[string]string{"A": "1", shim.MainPIDEnv: "0"},
	}, spec)
	spec = s.withDefaults(shim.Run{User: "0:0", Workdir: "/srv"})
	require.Equal(t, []string{"0:0", "/root-of-it/srv"}, []string{spec.User, spec.Workdir})
}

// A command starts in its working directory, with the environment of the container and
// its own, which precedes that.
func TestCommandEnvironment(t *testing.T) {
	t.Setenv("OF_CONTAINER", "1")
	t.Setenv("OF_BOTH", "container")
	result, err := runCommand(t, func(r *shim.Run) {
		r.Args = []string{"/bin/sh", "-c", "pwd; echo $OF_CONTAINER $OF_BOTH $OWN"}
		r.Workdir, r.Environment = "/usr", map[string]string{"OF_BOTH": "command", "OWN": "2"}
	})
	require.NoError(t, err)
	require.Equal(t, "/usr\n1 command 2\n", result.Stdout.String(), "%+v", result)
}
