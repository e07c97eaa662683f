package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/runtimetest"
	"github.com/hostler/hostler/runtime/shim"
)

// upgradeWorkload is a workload whose tenants have state.
const upgradeWorkload = `
pool: { min_idle: 1, max_size: 4, reuse: same_tenant }
sync: { sink: { type: file }, policy: { manual: true } }
hooks:
  post_claim: [{ name: greet, command: [APP, append, /state/greeted, "yes "] }]
  pre_release: [{ name: flush, command: [APP, append, /state/flushed, "yes "] }]
  pre_destroy: [{ name: bye, command: [BOX, echo, bye] }]
`

// previousServer returns the path of a server that gives its containers the
// version of the previous shim. It is this build's: an earlier one may have another
// database. As long as the versions are equal it is the server under test.
var previousServer = sync.OnceValues(func() (string, error) {
	dir, err := builtPrograms()
	if err != nil || runtimetest.PreviousVersion == shim.Version {
		return filepath.Join(dir, "hostler"), err
	}
	of, err := filepath.Abs("../runtime/shim/version.go")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(of)
	if err != nil {
		return "", err
	}
	text = regexp.MustCompile(`\bVersion += \d+`).ReplaceAll(text, fmt.Appendf(nil, "Version = %d", runtimetest.PreviousVersion))
	lowered, overlay, path := filepath.Join(dir, "version.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "hostler-previous")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{of: lowered}})
	if err := errors.Join(err, os.WriteFile(lowered, text, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	if out, err := testenv.GoBuild("-overlay", overlay, "-o", path, "../cmd/hostler").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server of the previous version: %w: %s", err, out)
	}
	return path, nil
})

// pushPreviousShim pushes the image of the previous shim.
func pushPreviousShim(t *testing.T, path string) string {
	t.Helper()
	r := clustertest.NewRegistry()
	cleanUpAtEnd(func(context.Context) error { r.Close(); return nil })
	image, err := r.Push(runID+"/hostler:previous", map[string]string{"usr/local/bin/hostler-shim": path})
	require.NoError(t, err)
	return image
}

// downgrade makes the next start that of a server whose containers have the
// previous shim.
func (s *server) downgrade() {
	s.t.Helper()
	path := runtimetest.BuildPreviousShim(s.t)
	var err error
	s.program, err = previousServer()
	require.NoError(s.t, err)
	s.args = []string{"--shim", path}
	if s.rt.name() == "kubernetes" {
		s.args = []string{"--shim-image", pushPreviousShim(s.t, path)}
	}
}

// upgrade makes the next start run the current version.
func (s *server) upgrade() { s.program, s.args = "", nil }

// containerIDs returns the ids of a workload's containers in a state.
func (s *server) containerIDs(id string, state client.ContainerState) (ids []string) {
	s.t.Helper()
	all, err := s.Containers(s.t.Context(), client.ContainerFilter{Workload: id, States: []client.ContainerState{state}})
	require.NoError(s.t, err)
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}

// versions returns the protocol versions of a workload's containers in a state,
// sorted.
func (s *server) versions(id string, state client.ContainerState) []int {
	s.t.Helper()
	all, err := s.Containers(s.t.Context(), client.ContainerFilter{Workload: id, States: []client.ContainerState{state}})
	require.NoError(s.t, err)
	list := []int{}
	for _, c := range all {
		list = append(list, c.Protocol)
	}
	slices.Sort(list)
	return list
}

// waitFor waits until a workload's idle containers have these versions, and none
// is being destroyed.
func (s *server) waitFor(id string, want ...int) {
	s.t.Helper()
	s.eventually(func() bool {
		return slices.Equal(want, s.versions(id, client.ContainerIdle)) && len(s.versions(id, client.ContainerDestroying)) == 0
	})
	require.Equal(s.t, want, s.versions(id, client.ContainerIdle), "%s", s.eventLog())
}

// A server continues the containers of an earlier build, with its shim: live claims,
// those that are kept for a tenant, and those without a claim so far. If the
// protocol has another version by now, the idle ones are replaced, and the claimed
// ones at their release. Servers that meet containers of a newer one, or of one that
// is too old, are tested in package release and by the contract of the backends.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		const id, before, now = "w", runtimetest.PreviousVersion, shim.Version
		s := install(t, rt)
		s.downgrade()
		s.start()
		s.apply(id, upgradeWorkload)
		s.waitFor(id, before)
		bob := s.claimAs(id, "bob")
		bob.mustRun("append", "/state/note", "bob's")
		bob.release()
		ada := s.claimAs(id, "ada")
		ada.mustRun("append", "/state/note", "ada's")
		cat, err := s.StartCommand(t.Context(), ada.ID, client.CommandRequest{Command: ada.boxArgs("cat"), Input: true})
		require.NoError(t, err)
		web, port, _ := s.claimWeb("web")
		s.waitFor(id, before, before) // one of them is kept for bob
		idle := s.containerIDs(id, client.ContainerIdle)

		s.kill()
		s.upgrade()
		s.start()
		if before < now {
			s.requireReplaced(id, now)
		}
		require.Equal(t, []int{before}, s.versions(id, client.ContainerClaimed))
		require.Equal(t, ada.ID, s.claimAs(id, "ada").ID)
		ada.requireCommand(cat.ID)
		ada.requireAccess()
		requireWeb(t, &http.Client{Transport: s.Port(web.ID, port)}, "http://port")
		ada.mustRun("append", "/state/note", " and more")
		ada.release()

		// Its state is in another container, its own one is destroyed.
		if before == now {
			s.mustCLI("delete", "container", ada.Container)
		}
		s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventContainerDestroyed}, Container: ada.Container}, 1)
		require.Len(t, s.events(client.EventFilter{Types: []client.EventType{client.EventHookCompleted}, Container: ada.Container, Point: "pre_destroy"}), 1, "%s", s.eventLog())
		again, back := s.claimAs(id, "ada"), s.claimAs(id, "bob")
		require.Equal(t, "ada's and more", again.mustRun("read", "/state/note"))
		require.Equal(t, "yes ", again.mustRun("read", "/state/flushed"))
		require.Equal(t, "yes yes ", again.mustRun("read", "/state/greeted"))
		require.Equal(t, "bob's", back.mustRun("read", "/state/note"))
		require.Equal(t, []int{now, now}, s.versions(id, client.ContainerClaimed))
		if before == now {
			require.Subset(t, idle, []string{again.Container, back.Container})
			require.Equal(t, bob.Container, back.Container)
		}
		again.release()
		back.release()
		web.release()

		require.Empty(t, s.events(eventsOf(id, client.EventClaimFailed)), "%s", s.eventLog())
		for _, r := range s.runsOf(client.RunFilter{Workload: id}) {
			require.Equal(t, client.RunSucceeded, r.State, "%s %s\n%s", r.Point, r.Hook, s.eventLog())
		}
		s.deleteWorkload(id)
		s.deleteWorkload("web")
		s.requireEnds()
		s.requireNothingLeft()
	})
}

// requireReplaced waits until the two idle containers of the version before are
// replaced by a new one.
func (s *server) requireReplaced(id string, now int) {
	s.t.Helper()
	s.waitFor(id, now)
	replaced := s.events(eventsOf(id, client.EventContainerDestroying))
	require.Len(s.t, replaced, 2, "%s", s.eventLog())
	for _, e := range replaced {
		require.Contains(s.t, e.Message, "its protocol version is outdated", "%s", s.eventLog())
	}
	made := s.events(eventsOf(id, client.EventContainerCreated))
	require.Greater(s.t, replaced[0].Seq, made[len(made)-1].Seq, "the new one is ready first")
}

// requireCommand asserts that a command continues, which returns its input.
func (g tenantSession) requireCommand(id string) {
	t, s := g.s.t, g.s
	t.Helper()
	cmd, err := s.AttachCommand(t.Context(), g.ID, id, 0)
	require.NoError(t, err)
	require.NoError(t, cmd.Send(t.Context(), []byte("still here")))
	require.NoError(t, cmd.CloseInput(t.Context()))
	var out bytes.Buffer
	result, err := cmd.Wait(t.Context(), &out, io.Discard)
	require.NoError(t, err)
	require.Zero(t, result.ExitCode)
	require.Equal(t, "still here", out.String())
}

// requireAccess asserts that a tenant can use its container.
func (g tenantSession) requireAccess() {
	t, s := g.s.t, g.s
	t.Helper()
	require.Equal(t, "ada's", g.mustRun("read", "/state/note"))
	got, err := s.Exec(t.Context(), g.ID, client.CommandRequest{Command: g.boxArgs("cat"), Stdin: "hello"})
	require.NoError(t, err)
	require.Equal(t, "hello", got.Stdout.Head)
	_, err = s.WriteFile(t.Context(), g.ID, "/state/new/file", 0o640, strings.NewReader("text"))
	require.NoError(t, err)
	f, err := s.OpenFile(t.Context(), g.ID, "/state/new/file", client.FileRange{})
	require.NoError(t, err)
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "text", string(text))
	s.eventually(func() bool { return g.inside("claim").OK() })
	g.requireIdentity(g.inside("claim").Stdout.String())
	require.Contains(t, s.mustCLI("sync", g.ID), "files")
}
