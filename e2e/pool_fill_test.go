package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// A pool whose containers cannot be created backs off and reports the error. A
// fixed workload file takes effect at once.
func TestFailingPostCreateBacksOff(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		failing := "pool: { min_idle: 2, max_size: 4 }\nhooks: { post_create: [{ name: warm, command: [BOX, %s] }] }\n"
		s.apply("broken", fmt.Sprintf(failing, "nonsense"))
		s.awaitEvent(eventsOf("broken", client.EventPoolWarning), 1)
		status, err := s.Pool(t.Context(), "broken")
		require.NoError(t, err)
		require.Contains(t, []client.FillState{client.FillBackingOff, client.FillFailing}, status.Fill.State)
		require.Contains(t, status.Fill.LastError, "box: no such command")
		require.Regexp(t, "backing_off|failing", s.mustCLI("get", "pools"))
		require.Contains(t, s.mustCLI("get", "pools", "-o", "yaml"), "box: no such command")

		// Two at once, then one after each backoff. The last one is long enough for what follows.
		sixth := s.awaitEvent(eventsOf("broken", client.EventPoolWarning), 6)
		tries := slices.DeleteFunc(s.events(eventsOf("broken", client.EventContainerCreating)),
			func(e client.Event) bool { return e.Seq > sixth.Seq })
		require.Len(t, tries, 6)
		status, err = s.Pool(t.Context(), "broken")
		require.NoError(t, err)
		require.NotNil(t, status.Fill.NextTry)
		s.apply("broken", fmt.Sprintf(failing, "echo, warm"))
		created := s.awaitEvent(eventsOf("broken", client.EventContainerCreated), 1)
		require.Greater(t, created.Seq, sixth.Seq)
		begun := eventsOf("broken", client.EventContainerCreating)
		begun.Container = created.Container
		require.True(t, s.awaitEvent(begun, 1).Time.Before(*status.Fill.NextTry), "created after the old backoff, not at once")
		s.awaitEvent(eventsOf("broken", client.EventContainerCreated), 2)
		s.deleteWorkload("broken")
		s.requireEnds()
		s.requireNothingLeft()
	})
}

// A directory of workload files is loaded and watched: added and changed files
// are applied, and an invalid or removed file does not change its workload.
func TestWorkloadDirectory(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		dir := t.TempDir()
		write := func(name, rest string) {
			// The file is renamed into place, as editors and configuration management
			// do, so that a partial file is never read.
			hidden := filepath.Join(dir, "."+name)
			require.NoError(t, os.WriteFile(hidden, []byte(workload(t, rt, name[:len(name)-len(".yaml")], rest)), 0o600))
			require.NoError(t, os.Rename(hidden, filepath.Join(dir, name)))
		}
		one := "pool: { min_idle: 1, max_size: 2 }\n"
		write("first.yaml", one)
		s := serve(t, rt, "--workloads", dir)
		first := s.awaitEvent(eventsOf("first", client.EventContainerCreated), 1)
		write("second.yaml", one)
		s.awaitEvent(eventsOf("second", client.EventContainerCreated), 1)

		write("first.yaml", one+"environment: { NEW: value }\n")
		f := eventsOf("first", client.EventContainerDestroyed)
		f.Container = first.Container
		s.awaitEvent(f, 1)
		changed, err := s.Workload(t.Context(), "first")
		require.NoError(t, err)

		write("first.yaml", one+"nonsense: true\n")
		s.log.await(t, "that the file is invalid", func(l logLine) bool {
			return l.hasMessage("workload file not applied") && l.errorContains("first.yaml:6:1: nonsense: ")
		})
		require.NoError(t, os.Remove(filepath.Join(dir, "second.yaml")))
		s.log.await(t, "that the file was removed", func(l logLine) bool { return l["workload"] == "second" && l["level"] == "WARN" })
		for id, revision := range map[string]string{"first": changed.Revision, "second": ""} {
			w, err := s.Workload(t.Context(), id)
			require.NoError(t, err)
			require.True(t, revision == "" || w.Revision == revision)
			_, _, err = s.Claim(t.Context(), id, "ada", waitTimeout)
			require.NoError(t, err)
		}
	})
}
