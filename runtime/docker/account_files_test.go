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

// A tenant that replaces /etc/passwd with a terminal blocks the engine's next
// exec, whose program waits for it inside the container, and with that every
// other call about the container, including removals. The block is bounded:
// rule 10.
func TestAccountFilesDoNotBlockEngine(t *testing.T) {
	t.Parallel() // it waits for a minute
	needEngine(t)
	importImages(t, "")
	image := imageAttacked(0)
	rt := connect(t)
	require.NoError(t, rt.Import(t.Context(), image, bytes.NewReader(runtimetest.AttackedRootfs(t, 0))))
	ctx := t.Context()
	spec := newSpec()
	spec.Image, spec.User, spec.Networks = image, "0:0", []string{"none"}
	spec.Command = []string{"/app/server", "serve"}
	require.NoError(t, rt.Create(ctx, spec))
	require.NoError(t, rt.Start(ctx, spec.ID, 1))
	result, err := rt.Exec(ctx, spec.ID, runtime.Command{
		Args: []string{"/attacker", "order"}, Stdin: []byte(`{"do":"attack","attack":"accounts-terminal"}` + "\n"), Timeout: 30 * time.Second,
	})
	require.NoError(t, err)
	require.True(t, result.OK(), result.Stderr.String())

	// Another server has no session yet: the engine has to open one.
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	_, err = connect(t).Exec(short, spec.ID, runtime.Command{Args: []string{"/attacker", "exit", "0"}, Timeout: time.Second})
	require.Error(t, err, "an engine that does not read the files in the container is not blocked by them")
	runtimetest.Destroy(t, rt, spec.ID)
	_, err = rt.Status(ctx, spec.ID)
	require.ErrorIs(t, err, runtime.ErrNotFound)
}

// A tenant that puts a FIFO in the place of /etc/passwd and ends its main process
// would have the engine open the FIFO when the container is started again, with
// the container locked for good. The container is refused instead, and every
// call about it returns: rule 10. Links to files do no harm.
func TestStartRefusesAccountFIFO(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	for name, tt := range map[string]struct {
		commands [][]string
		tainted  bool
	}{
		"FIFO": {[][]string{{"mkfifo", "/etc/passwd"}}, true},
		"link to a FIFO": {[][]string{
			{"mkfifo", "/home/x"}, {"link", "../home", "/etc/y"}, {"link", "/etc/y/x", "/etc/passwd"},
		}, true},
		"link to a file": {[][]string{
			{"write", "/home/x", "root:x:0:0:root:/root:/sbin/nologin"}, {"link", "../home", "/etc/y"}, {"link", "/etc/y/x", "/etc/passwd"},
		}, false},
		"nothing": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			id := startContainer(t, rt, func(s *runtime.Spec) {
				s.Image, s.User, s.Command, s.Workdir, s.Networks = imageUsers, "0:0", []string{"/usr/bin/box", "idle"}, "/data", []string{"none"}
			})
			mustExec(t, rt, id, "/usr/bin/box", "remove", "/etc/passwd")
			for _, args := range tt.commands {
				mustExec(t, rt, id, append([]string{"/usr/bin/box"}, args...)...)
			}
			_, _ = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/usr/bin/box", "kill", "main", "KILL"}})
			testenv.AwaitTrue(t, "the container to exit", func() bool {
				s, err := rt.Status(t.Context(), id)
				return err == nil && s.State == runtime.Exited
			})

			ctx := t.Context()
			err := rt.Start(ctx, id, 1)
			if !tt.tainted {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, runtime.ErrTainted)
			require.ErrorIs(t, rt.Restart(ctx, id, 2), runtime.ErrTainted)
			_, err = connect(t).Status(ctx, id)
			require.NoError(t, err)
			_, err = connect(t).List(ctx)
			require.NoError(t, err)
			require.NoError(t, connect(t).Destroy(ctx, id))
		})
	}
}
