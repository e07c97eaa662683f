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
