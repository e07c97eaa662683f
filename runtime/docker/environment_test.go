package docker_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"
)

// The engine knows nothing of the environment of a claim, also when the container
// had exited before.
func TestEnvironmentIsNotInEngine(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt)
	const value = "a-value-of-a-tenant"
	check := func(fence int64) {
		require.NoError(t, rt.RestartWith(t.Context(), id, fence, map[string]string{"TOKEN": value}))
		c, raw, err := needEngine(t).ContainerInspectWithRaw(t.Context(), "hostler-"+id, true)
		require.NoError(t, err)
		text, err := json.Marshal(c)
		require.NoError(t, err)
		require.NotContains(t, string(raw)+string(text), value)
	}
	check(2)
	top, err := needEngine(t).ContainerTop(t.Context(), "hostler-"+id, []string{"-eo", "pid,args"})
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(top.Processes), value)
	require.NotContains(t, mustExec(t, rt, id, "/box", "ps", ""), value)
	timeout := 0
	require.NoError(t, needEngine(t).ContainerStop(t.Context(), "hostler-"+id, container.StopOptions{Timeout: &timeout}))
	check(3)
}
