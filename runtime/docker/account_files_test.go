package docker_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// A tenant that puts a terminal in the place of /etc/passwd holds up the engine's
// next exec, whose program waits for it inside the container, and with that
// every other call about the container, also those that remove it. That ends
// within a bound: rule 10.
func TestAccountFilesDoNotBlockEngine(t *testing.T) {
	needEngine(t)
	testenv.SkipShort(t, "docker")
	importImages(t, "")
	image := imageAttacked(0)
	rt := connect(t)
	require.NoError(t, rt.Import(t.Context(), image, bytes.NewReader(runtimetest.AttackedRootfs(t, 0))))
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	spec := newSpec()
	spec.Image, spec.User, spec.Networks = image, "0:0", []string{"none"}
	spec.Command = []string{"/app/server", "serve"}
	require.NoError(t, rt.Create(ctx, spec))
	require.NoError(t, rt.Start(ctx, spec.ID))
	result, err := rt.Exec(ctx, spec.ID, runtime.Command{
		Args: []string{"/attacker", "order"}, Stdin: []byte(`{"do":"attack","attack":"accounts-terminal"}` + "\n"), Timeout: 30 * time.Second,
	})
	require.NoError(t, err)
	require.True(t, result.OK(), result.Stderr.String())

	// Another server has no session yet: the engine has to open one.
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	_, err = connect(t).Exec(short, spec.ID, runtime.Command{Args: []string{"/attacker", "exit", "0"}, Timeout: time.Second})
	require.Error(t, err, "an engine that does not read the files in the container is not held up by them")
	runtimetest.Destroy(t, rt, spec.ID)
	_, err = rt.Status(ctx, spec.ID)
	require.ErrorIs(t, err, runtime.ErrNotFound)
}
