package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

const auditKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Every event of the claim arrives once, in the order of the log, and signed.
func (e *example) audits() {
	t := e.t
	c := e.claim("ada")
	e.release(c)
	events := e.events(client.EventFilter{Claim: c.ID, Types: []client.EventType{"claim"}})
	require.GreaterOrEqual(t, len(events), 4, "requested, activated, releasing, released")
	verifier, err := standardwebhooks.NewWebhook(auditKey)
	require.NoError(t, err)
	got := e.services.await(t, "POST /audit/hostler", len(events))
	require.Len(t, got, len(events))
	byType := map[string]int64{}
	for _, r := range got {
		require.NoError(t, verifier.Verify([]byte(r.body), r.header))
		var envelope envelopeOf
		require.NoError(t, json.Unmarshal([]byte(r.body), &envelope))
		byType[envelope.Type] = envelope.Seq
	}
	for _, event := range events {
		require.Equal(t, event.Seq, byType[string(event.Type)])
	}
}

// The seat is requested before the main process starts, and returned at the end.
// A claimed container has its socket.
func (e *example) actsAtStart() {
	t := e.t
	c := e.claim("ada")
	var seats []string
	for _, r := range e.services.received("POST /licenses/v1/seats") {
		seats = append(seats, r.body)
	}
	require.Contains(t, seats, `{"id": "`+c.Container+`"}`)
	e.release(c)
	require.Len(t, e.services.received("DELETE /licenses/v1/seats/"+c.Container), 1)
	runs := e.runsOf(client.RunFilter{Container: c.Container})
	require.Equal(t, []string{"license", "socket", "show", "return-license"}, slices.Compact(hooksOf(runs)))
	failed := e.runsOf(client.RunFilter{Point: client.PreStart, States: []client.RunState{client.RunFailed}})
	require.Len(t, failed, 1, "the first request was retried")
}

// hooksOf returns the names of the hooks of runs.
func hooksOf(runs []client.Run) []string {
	all := make([]string, len(runs))
	for i, r := range runs {
		all[i] = r.Hook
	}
	return all
}

// The limit of a file ends the hook, and the claim continues.
func (e *example) isBounded() {
	t := e.t
	c := e.claim("ada")
	require.Equal(t, client.ClaimActive, c.State)
	require.Len(t, c.Warnings, 1)
	require.Equal(t, map[string][]client.RunState{"index": {client.RunFailed}}, e.states(client.RunFilter{Claim: c.ID}))
	// The next write would have exceeded 100 MiB.
	require.Equal(t, "67108865\n", tenantSession{e.server, c}.mustRun("size", "/data/index"))
}

// The credential is issued for the claim, handed over, and revoked at its end.
// The container never has the server's token.
func (e *example) revokesCredential() {
	t := e.t
	c := e.claim("ada")
	issued := e.services.received("POST /iam/v1/keys")
	require.Len(t, issued, 1)
	require.JSONEq(t, `{"owner": "ada", "claim": "`+c.ID+`"}`, issued[0].body)
	require.Equal(t, "Bearer iam-token-1", issued[0].header.Get("Authorization"))
	require.Empty(t, e.services.received("DELETE"), "before the release")
	released := e.release(c)
	require.Empty(t, released.Warnings)
	revoked := e.services.received("DELETE /iam/v1/keys/key-1")
	require.Len(t, revoked, 1)
	require.Equal(t, "Bearer iam-token-1", revoked[0].header.Get("Authorization"))
	require.Equal(t, map[string][]client.RunState{
		"issue": {client.RunSucceeded}, "hand-over": {client.RunSucceeded}, "show": {client.RunSucceeded},
		"revoke": {client.RunFailed, client.RunSucceeded},
	}, e.states(client.RunFilter{Container: c.Container}))
	require.Equal(t, "access-1", outputsByHook(e.runsOf(client.RunFilter{Container: c.Container}))["show"])
	require.NotContains(t, mustJSON(t, e.runsOf(client.RunFilter{}))+mustJSON(t, e.events(client.EventFilter{})), "iam-token-1")
}

// Only the first tenant of a container waits for its preparation.
func (e *example) preparesOnce() {
	t := e.t
	_, err := e.Scale(t.Context(), e.id, client.Scale{MinIdle: new(0), MaxSize: new(1)})
	require.NoError(t, err)
	first := e.claim("ada")
	require.Equal(t, client.SourceFresh, first.Source)
	require.Equal(t, map[string][]client.RunState{"prepare": {client.RunSucceeded}}, e.states(client.RunFilter{Claim: first.ID}))
	_, err = e.Release(t.Context(), first.ID, false)
	require.NoError(t, err)
	second := e.claim("bob")
	want := map[client.Source]client.RunState{client.SourceFresh: client.RunSucceeded, client.SourceRecycled: client.RunSkipped}[second.Source]
	require.Equal(t, map[string][]client.RunState{"prepare": {want}}, e.states(client.RunFilter{Claim: second.ID}))
}

// What the application had in memory is in the state of the next claim.
func (e *example) flushes() {
	t := e.t
	first := e.claim("ada")
	require.Len(t, first.Warnings, 1, "there is nothing to show yet")
	require.Equal(t, first.Warnings, e.release(first).Warnings)
	require.Equal(t, map[string][]client.RunState{"show": {client.RunFailed}, "flush": {client.RunSucceeded}, "checkpoint": {client.RunSucceeded}},
		e.states(client.RunFilter{Claim: first.ID}))
	second := e.claim("ada")
	require.NotEqual(t, first.Container, second.Container)
	require.Contains(t, outputsByHook(e.runsOf(client.RunFilter{Claim: second.ID}))["show"], "POST flush\n")
}

// A tenant's state is migrated at its first claim, whatever container the second
// claim gets. Another tenant's state is migrated, too.
func (e *example) migratesOnce() {
	t := e.t
	first := e.claim("ada")
	e.release(first)
	second := e.claim("ada")
	require.NotEqual(t, first.Container, second.Container)
	e.release(second)
	other := e.claim("bob")
	e.release(other)
	for c, ran := range map[string]bool{first.ID: true, second.ID: false, other.ID: true} {
		states := e.states(client.RunFilter{Claim: c})
		require.Equal(t, []client.RunState{client.RunSucceeded}, states["show"])
		want := []client.RunState{client.RunSkipped}
		if ran {
			want = []client.RunState{client.RunSucceeded}
		}
		require.Equal(t, want, states["migrate"])
		require.Equal(t, want, states["mark"])
		require.Equal(t, "migrated\n", outputsByHook(e.runsOf(client.RunFilter{Claim: c}))["show"])
	}
}

// A claimed container is registered, and unregistered also if it disappears.
func (e *example) registers() {
	t := e.t
	c := e.claim("ada")
	path := "/registry/v1/services/" + c.Container
	registered := e.services.received("PUT " + path)
	require.Len(t, registered, 1)
	require.JSONEq(t, `{"workload": "service-registry", "tenant": "ada"}`, registered[0].body)
	require.Equal(t, "Bearer registry-token-1", registered[0].header.Get("Authorization"))
	require.Equal(t, "application/json", registered[0].header.Get("Content-Type"))
	require.Equal(t, map[string][]client.RunState{"register": {client.RunFailed, client.RunSucceeded}}, e.states(client.RunFilter{Claim: c.ID}))
	require.Empty(t, e.services.received("DELETE"))

	require.NoError(t, e.engine.Destroy(t.Context(), c.Container), "someone else removes it")
	_, err := e.Release(t.Context(), c.ID, false)
	require.NoError(t, err)
	removed := e.services.await(t, "DELETE "+path, 1)
	require.Len(t, removed, 1)
	require.Equal(t, "Bearer registry-token-1", removed[0].header.Get("Authorization"))
}

// The channel gets one message for a claim that failed, with the reason.
func (e *example) notifies() {
	t := e.t
	_, _, err := e.Claim(t.Context(), e.id, "ada", waitTimeout)
	require.Equal(t, client.CodeHookFailed, problemOf(t, err).Code)
	got := e.services.await(t, "POST /slack/T0/B0", 1)
	require.Len(t, got, 1)
	var message struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(got[0].body), &message))
	failed := e.awaitEvent(eventsOf(e.id, client.EventClaimFailed), 1)
	require.Equal(t, "slack: "+failed.Message, message.Text)
	require.Contains(t, message.Text, "broken")
	require.NotContains(t, mustJSON(t, e.runsOf(client.RunFilter{}))+e.log.String(), "/T0/B0", "the URL is the secret")
}

// A container is idle only when its pages were requested.
func (e *example) warms() {
	t := e.t
	e.awaitEvent(eventsOf(e.id, client.EventContainerCreated), 2)
	c := e.claim("ada")
	seen := strings.Fields(outputsByHook(e.runsOf(client.RunFilter{Claim: c.ID}))["show"])
	require.Subset(t, seen, []string{"/", "/search", "/help"}) // the health check requests the first one as well
	warmed := e.runsOf(client.RunFilter{Container: c.Container, Point: client.PostCreate})
	require.Equal(t, client.RunSucceeded, warmed[len(warmed)-1].State)
}

// exampleImage returns an image with the programs that the examples call.
func exampleImage(t *testing.T, rt backend) string {
	t.Helper()
	if rt.name() == "process" {
		return rt.image(t)
	}
	if _, err := exampleFiles(); err != nil {
		testenv.Skip(t, "shells", "no busybox on this machine, whose package is busybox-static: %v", err)
	}
	if rt.name() == "kubernetes" {
		return images(t).examples
	}
	ref, err := importedExamples()
	require.NoError(t, err)
	return ref
}

// importedExamples creates that image on the engine of this machine.
var importedExamples = sync.OnceValues(func() (string, error) {
	files, err := exampleFiles()
	if err != nil {
		return "", err
	}
	return importFiles("", "examples", files)
})

// exampleFiles returns the files of that image.
func exampleFiles() (map[string]string, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	dir, err := builtPrograms()
	if err != nil {
		return nil, err
	}
	files := map[string]string{"app": filepath.Join(dir, "app"), "bin/app": filepath.Join(dir, "app"), "tmp/empty": os.DevNull}
	for _, name := range []string{"sh", "awk", "cat", "date", "grep", "pkill", "sed", "sleep", "test", "touch", "truncate", "wc", "wget"} {
		files["bin/"+name] = busybox
	}
	addWaiting(files, dir)
	return files, nil
}

// addWaiting adds what scripts in CFN's form need: bash and jq of this machine with
// their libraries, if there are any, and the programs of the example.
func addWaiting(files map[string]string, dir string) {
	files["box"] = filepath.Join(dir, "box")
	for _, name := range waitingPrograms {
		files[name] = filepath.Join(waitingDir, name)
	}
	for _, name := range []string{"bash", "jq"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // the tests with such scripts skip
		}
		files["bin/"+name] = path
		libraries, err := exec.Command("ldd", path).Output()
		if err != nil {
			continue // it is static
		}
		for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(libraries), -1) {
			files[strings.TrimPrefix(library, "/")] = library
		}
	}
}
