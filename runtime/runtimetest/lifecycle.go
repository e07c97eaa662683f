package runtimetest

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// lifecycleCases tests Create, Start, Restart, Status, List, Logs and Destroy.
func lifecycleCases(t *testing.T, s *suite) {
	cases := []testCase{
		{"created is not running", createdIsNotRunning},
		{"create twice", createTwice},
		{"start twice", startTwice},
		{"status has the fields of the spec", statusFields},
		{"main that cannot start", mainCannotStart},
		{"main that exits", mainExits},
		{"no such container", noSuchContainer},
		{"destroy", destroy},
		{"foreign containers", foreign},
		{"logs", logs},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, s)
		})
	}
}

func createdIsNotRunning(t *testing.T, s *suite) {
	spec := s.Spec(t)
	s.create(t, spec)
	require.Equal(t, runtime.Created, s.state(t, spec.ID))
	require.True(t, s.isListed(t, spec.ID))
	_, err := s.rt.Exec(t.Context(), spec.ID, runtime.Command{Args: []string{spec.Command[0], "exit", "0"}})
	require.ErrorIs(t, err, runtime.ErrNotRunning, "Exec before Start")
}

func createTwice(t *testing.T, s *suite) {
	spec := s.Spec(t)
	s.create(t, spec)
	require.ErrorIs(t, s.rt.Create(t.Context(), spec), runtime.ErrExists)
	require.True(t, s.isListed(t, spec.ID), "the first one still exists")
}

func startTwice(t *testing.T, s *suite) {
	c := s.start(t)
	c.mustExec(t, "write", "mine", "1")
	require.NoError(t, s.rt.Start(t.Context(), c.id, 1), "Start of a running container")
	require.Equal(t, "1", c.mustExec(t, "read", "mine"))
	require.Equal(t, runtime.Running, s.state(t, c.id))
}

// Status and List return what the caller gave to Create, and Status the node.
func statusFields(t *testing.T, s *suite) {
	spec := s.Spec(t)
	spec.Workload, spec.Revision, spec.Ports = "some-workload", "r1", []int{8080, 9090}
	c := s.startSpec(t, spec)
	status, err := s.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, "some-workload", status.Workload)
	require.Equal(t, "r1", status.Revision)
	require.Equal(t, []int{8080, 9090}, status.Endpoint.Ports)
	require.NotEmpty(t, status.Node)
	all, err := s.rt.List(t.Context())
	require.NoError(t, err)
	require.Contains(t, ids(all), c.id)
}

func ids(all []runtime.Status) []string {
	var names []string
	for _, status := range all {
		names = append(names, status.ID)
	}
	return names
}

func mainCannotStart(t *testing.T, s *suite) {
	spec := s.Spec(t)
	spec.Command = []string{"/no/such/program"}
	s.create(t, spec)
	require.Equal(t, runtime.StartBinaryNotFound, startError(t, s.rt.Start(t.Context(), spec.ID, 1)))
	testenv.AwaitTrue(t, "it is not running", func() bool {
		return s.state(t, spec.ID) != runtime.Running
	})
}

func mainExits(t *testing.T, s *suite) {
	c := s.start(t)
	c.endMain(t)
	status, err := s.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, 0, status.ExitCode, "box idle exits with 0 on SIGTERM")
	_, err = c.exec(t, c.command("exit", "0"))
	require.ErrorIs(t, err, runtime.ErrNotRunning, "Exec after the exit")

	require.NoError(t, s.rt.Start(t.Context(), c.id, 1), "Start after the exit")
	require.Equal(t, "again\n", c.mustExec(t, "echo", "again"))
}

// endMain has the main process exit by itself, and waits until Status reports it.
func (c *container) endMain(t *testing.T) {
	t.Helper()
	testenv.AwaitTrue(t, "the main process handles SIGTERM", func() bool {
		return c.log(t, 1<<20) != ""
	})
	// The response may be lost with the container. This case does not test it.
	_, _ = c.exec(t, c.command("kill", "main", "TERM"))
	testenv.AwaitTrue(t, "the container exits with its main process", func() bool {
		return c.state(t, c.id) == runtime.Exited
	})
}

func noSuchContainer(t *testing.T, s *suite) {
	id, ctx := s.Spec(t).ID, t.Context()
	calls := map[string]func() error{
		"Start":   func() error { return s.rt.Start(ctx, id, 1) },
		"Restart": func() error { return s.rt.Restart(ctx, id, 1) },
		"Stop":    func() error { return s.rt.Stop(ctx, id, 1) },
		"Status":  func() error { _, err := s.rt.Status(ctx, id); return err },
		"Logs":    func() error { _, err := s.rt.Logs(ctx, id, time.Time{}, 100); return err },
		"Exec": func() error {
			_, err := s.rt.Exec(ctx, id, runtime.Command{Args: []string{"x"}})
			return err
		},
		"CopyIn":         func() error { return s.rt.CopyIn(ctx, id, "/data", 0, strings.NewReader("")) },
		"CopyOut":        func() error { _, err := s.rt.CopyOut(ctx, id, "/data"); return err },
		"RecordBaseline": func() error { return s.rt.RecordBaseline(ctx, id, 1) },
		"Wipe":           func() error { return s.rt.Wipe(ctx, id, 1) },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), runtime.ErrNotFound, name)
	}
	require.NoError(t, s.rt.Destroy(ctx, id), "Destroy")
	require.False(t, s.isListed(t, id))
}

// Destroy works in every state, twice, and then the id can be used again.
func destroy(t *testing.T, s *suite) {
	spec := s.Spec(t)
	for _, started := range []bool{false, true} {
		s.create(t, spec)
		if started {
			require.NoError(t, s.rt.Start(t.Context(), spec.ID, 1))
		}
		require.NoError(t, s.rt.Destroy(t.Context(), spec.ID))
		require.NoError(t, s.rt.Destroy(t.Context(), spec.ID), "a second time")
		_, err := s.rt.Status(t.Context(), spec.ID)
		require.ErrorIs(t, err, runtime.ErrNotFound)
		require.False(t, s.isListed(t, spec.ID))
	}
}

// What Hostler did not create is never listed, described or removed.
func foreign(t *testing.T, s *suite) {
	if isUnsupported(t, s.CreateForeign == nil, "to ignore containers of other owners: there are none") {
		return
	}
	id := s.CreateForeign(t)
	require.False(t, s.isListed(t, id))
	_, err := s.rt.Status(t.Context(), id)
	require.ErrorIs(t, err, runtime.ErrNotFound)
	require.ErrorIs(t, s.rt.Start(t.Context(), id, 1), runtime.ErrNotFound)
	require.NoError(t, s.rt.Destroy(t.Context(), id))
}

func logs(t *testing.T, s *suite) {
	c := s.start(t)
	testenv.AwaitTrue(t, "the log has what the main process prints", func() bool {
		return c.log(t, 1<<20) == "idle\n"
	})
	require.Equal(t, "le\n", c.log(t, 3), "the last bytes")
	c.mustExec(t, "echo", "not in the log")
	require.Equal(t, "idle\n", c.log(t, 1<<20), "a command's output is not in the log")
}

// log returns the last bytes of the output of the main process.
func (c *container) log(t *testing.T, tail int64) string {
	t.Helper()
	r, err := c.rt.Logs(t.Context(), c.id, time.Time{}, tail)
	require.NoError(t, err, "Logs")
	defer r.Close()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
