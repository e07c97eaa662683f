package docker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// Of the container's processes only the first receives the key.
func TestShimKeyNotInherited(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt)
	text, err := rt.RunOwn(t.Context(), id, "/box", "env")
	require.NoError(t, err)
	require.Contains(t, text, "PATH=")
	require.NotContains(t, text, shim.ConfigEnv)
}

// No account that root in a container creates is the shim's user: not by a number
// that the kernel truncates to it, nor by -1, which keeps the user of the process
// that starts a program.
func TestAccountsNeverMapToShimUser(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	for _, number := range []string{"4295032293", "-1"} {
		id := startContainer(t, rt)
		mustExec(t, rt, id, "/box", "write", "/etc/passwd", "0:x:"+number+":"+number+"::/:\n")
		mustExec(t, rt, id, "/box", "write", "/etc/group", "0:x:"+number+":\n")
		require.NoError(t, rt.Restart(t.Context(), id, 1))
		for _, user := range []string{"", "0", "0:0"} {
			result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "id"}, User: user})
			require.NoError(t, err)
			require.Contains(t, result.Stdout.String(), "uid=0 gid=0 ", "%s as %q", number, user)
		}
	}
}
