package process

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// The environment of a claim is that of the main process and of commands of the
// tenant, and of no other command. It ends with the main process, whichever call
// ends it. No file of the container or of the server has it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	rt := openRuntime(t, dir+"/data")
	spec := runtime.Spec{ID: "c", Command: []string{copyTestprog(t, dir), "env-idle", "environment"}, Workdir: "/data",
		Volumes: []runtime.Volume{{Name: "data", Target: "/data"}}}
	require.NoError(t, rt.Create(t.Context(), spec))
	t.Cleanup(func() { require.NoError(t, rt.Destroy(t.Context(), spec.ID)) })
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	const value = "a-value-of-a-tenant"
	given := map[string]string{"TOKEN": value}
	box := func(args ...string) (string, error) {
		result, err := rt.Exec(t.Context(), spec.ID, runtime.Command{Args: append(spec.Command[:1:1], args...)})
		if err == nil && !result.OK() {
			err = errors.New(result.Stderr.String())
		}
		return result.Stdout.String(), err
	}
	ofMain := func() (text string) {
		testenv.AwaitTrue(t, "the environment of the main process", func() bool {
			var err error
			text, err = box("read", "environment")
			return err == nil && text != ""
		})
		_, err := box("remove", "environment")
		require.NoError(t, err)
		return text
	}
	require.NotContains(t, ofMain(), "TOKEN=")
	ends := map[string]func() error{
		"Restart":        func() error { return rt.Restart(t.Context(), spec.ID, 1) },
		"RecordBaseline": func() error { return rt.RecordBaseline(t.Context(), spec.ID, 1) },
	}
	for name, end := range ends {
		require.NoError(t, rt.RestartWith(t.Context(), spec.ID, 1, given))
		require.Contains(t, ofMain(), "TOKEN="+value)
		text, err := box("env")
		require.NoError(t, err)
		require.NotContains(t, text, value, "a hook")
		require.Contains(t, ofCommand(t, rt, spec, false), value)
		require.NotContains(t, ofCommand(t, rt, spec, true), value, "a command of the server")
		requireNowhere(t, dir, value)
		require.NoError(t, end(), name)
		require.NotContains(t, ofMain(), value, name)
		require.NotContains(t, ofCommand(t, rt, spec, false), value, name)
	}
}

// ofCommand returns the environment of a command of the tenant, or of an internal
// one.
func ofCommand(t *testing.T, rt *Runtime, spec runtime.Spec, internal bool) string {
	t.Helper()
	s, err := rt.OpenCommand(t.Context(), spec.ID, runtime.TenantCommand{
		ID: time.Now().Format("20060102150405.000000000"), Args: []string{spec.Command[0], "env"}, Fence: 1, Internal: internal,
	})
	require.NoError(t, err)
	defer s.Close()
	var text bytes.Buffer
	for {
		out, err := s.Next()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		require.NoError(t, err)
		text.Write(out.Data)
	}
}

// requireNowhere asserts that no file below a directory contains a text.
func requireNowhere(t *testing.T, dir, text string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), text, path)
		return err
	}))
}
