package e2e

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// The hooks of scenarios. The first one is still running when its server is
// killed, and succeeds once letGo is called. The second one decides.
const (
	waitingHook  = "{ name: wait, command: [APP, await, /state/go, MARKER], timeout: 10m }"
	failingHooks = "[" + waitingHook + ", { name: then, command: [APP, fail] }]"
	passingHooks = "[" + waitingHook + ", { name: then, command: [APP, append, /state/log, then] }]"
)

// countingHooks record in the container how often they ran, independently of the
// server's records.
const countingHooks = `
pool: { min_idle: 1, max_size: 1, reuse: wipe }
hooks:
  post_create: [{ command: [APP, append, /state/log, made] }]
  post_claim: [{ command: [APP, append, /state/log, claimed] }]
  pre_release: [{ name: show, command: [APP, read, /state/log] }]
`

// crashScenario is the state of a workload when the server is killed.
type crashScenario struct {
	s           *server
	id          string
	marker      string
	container   string
	claim       string
	incarnation string // the container's incarnation
	isLetGo     bool
}

// crashScenarios returns, by workload, how to reach the state, and the check after
// the next server has taken over.
func crashScenarios() map[string]struct {
	file          string
	before, after func(c *crashScenario)
} {
	type scenario = struct {
		file          string
		before, after func(c *crashScenario)
	}
	fails := func(point string) string {
		return "pool: { min_idle: 1, max_size: 1, reuse: wipe }\nhooks: { " + point + ": " + failingHooks + " }\n"
	}
	passes := func(point string) string { return strings.ReplaceAll(fails(point), failingHooks, passingHooks) }
	return map[string]scenario{
		"idle":       {countingHooks, (*crashScenario).prepareIdle, (*crashScenario).requireIdle},
		"held":       {countingHooks, (*crashScenario).prepareClaimed, (*crashScenario).requireClaimed},
		"in-create":  {passes("post_create"), (*crashScenario).prepareCreating, (*crashScenario).requireCreateAborted},
		"in-claim":   {fails("post_claim"), (*crashScenario).prepareClaiming, (*crashScenario).requireClaimFailed},
		"in-claim-2": {passes("post_claim"), (*crashScenario).prepareClaiming, (*crashScenario).requireClaimResumed},
		"in-release": {fails("pre_release"), (*crashScenario).prepareReleasing, (*crashScenario).requireReleased},
		"in-destroy": {fails("pre_destroy"), (*crashScenario).prepareDestroying, (*crashScenario).requireDestroyResumed},
	}
}

// A server is killed with idle and claimed containers and during every kind of
// hook. The next one has the same claims on the same containers, resumes running
// hooks, discards incomplete containers, runs no hook again, and does not touch
// the containers of other installations.
func TestKilledInEveryState(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		foreign := makeForeign(t, s)
		all, ended := prepareScenarios(t, s, slices.Sorted(maps.Keys(crashScenarios()))...)
		s.kill()
		ended()
		orphan := makeOrphan(t, s)
		all["in-claim-2"].letGo() // its hook has ended when the next server starts
		s.start()
		letGo(all)
		for id, scenario := range crashScenarios() {
			scenario.after(all[id])
			s.deleteWorkload(id)
		}
		s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventContainerDestroyed}, Container: orphan}, 1)
		s.requireEnds()
		s.requireNothingLeft()
		foreign()
	})
}

// prepareScenarios brings workloads of a server into the states of the scenarios.
// ended waits for the calls of the scenarios.
func prepareScenarios(t *testing.T, s *server, ids ...string) (all map[string]*crashScenario, ended func()) {
	t.Helper()
	all = map[string]*crashScenario{}
	for _, id := range ids {
		c := &crashScenario{s: s, id: id, marker: id + "-" + uuid.NewString()[:8]}
		all[id] = c
		s.apply(id, withMarker(crashScenarios()[id].file, c.marker))
	}
	var running errgroup.Group
	for id, c := range all {
		running.Go(func() error { crashScenarios()[id].before(c); return nil })
	}
	for _, c := range all {
		c.awaitReady()
	}
	return all, func() { require.NoError(t, running.Wait()) }
}

// letGo ends the hook that runs in the container of each scenario.
func letGo(all map[string]*crashScenario) {
	for _, c := range all {
		c.letGo()
	}
}

func (c *crashScenario) letGo() {
	if strings.HasPrefix(c.id, "in-") && c.id != "in-create" && !c.isLetGo {
		c.isLetGo = true
		c.s.letGo(c.container)
	}
}

func (s *server) letGo(container string) {
	s.t.Helper()
	tenantSession{s, client.Claim{Container: container}}.mustRun("append", "/state/go", "x")
}

// withMarker puts the marker of a test's processes into a workload file.
func withMarker(text, marker string) string { return strings.ReplaceAll(text, "MARKER", marker) }

// awaitProcess waits until a process with the marker runs in the container. It
// polls, because no event reports when a hook runs its own code.
func (s *server) awaitProcess(container, marker string) {
	s.t.Helper()
	testenv.AwaitTrue(s.t, "a process with "+marker, func() bool { return s.rt.hasProcess(s.t, container, marker) })
}

// awaitReady waits until the state of the scenario is reached.
func (c *crashScenario) awaitReady() {
	c.s.t.Helper()
	switch c.id {
	case "idle":
		c.container = c.s.awaitEvent(eventsOf(c.id, client.EventContainerCreated), 1).Container
	case "held":
		c.container = c.s.awaitEvent(eventsOf(c.id, client.EventClaimActivated), 1).Container
	default:
		c.container = c.s.awaitEvent(eventsOf(c.id, client.EventHookStarted), 1).Container
		c.s.awaitProcess(c.container, c.marker)
	}
	c.incarnation = c.s.rt.incarnation(c.s.t, c.s, c.container)
}

func (c *crashScenario) prepareIdle()     {}
func (c *crashScenario) prepareCreating() {}

func (c *crashScenario) prepareClaimed() {
	got, _, err := c.s.Claim(c.s.t.Context(), c.id, "ada", waitTimeout)
	if err == nil {
		c.claim = got.ID
	}
}

// prepareClaiming sends a claim that will not be answered.
func (c *crashScenario) prepareClaiming() { c.prepareClaimed() }

func (c *crashScenario) prepareReleasing() {
	c.prepareClaimed()
	_, _ = c.s.Release(c.s.t.Context(), c.claim, false) // the server is killed during the call
}

func (c *crashScenario) prepareDestroying() {
	made := c.s.awaitEvent(eventsOf(c.id, client.EventContainerCreated), 1)
	_, _ = c.s.DestroyContainer(c.s.t.Context(), made.Container, false) // likewise
}

func (c *crashScenario) requireIdle() {
	t := c.s.t
	got, _, err := c.s.Claim(t.Context(), c.id, "ada", 0)
	require.NoError(t, err)
	require.Equal(t, client.SourceFresh, got.Source)
	c.requireSameContainer(got)
}

func (c *crashScenario) requireClaimed() {
	t := c.s.t
	got, created, err := c.s.Claim(t.Context(), c.id, "ada", 0)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, c.claim, got.ID)
	c.requireSameContainer(got)
}

// requireSameContainer checks that the claim has the same container as before, in
// which each hook has run once.
func (c *crashScenario) requireSameContainer(got client.Claim) {
	t := c.s.t
	require.Equal(t, c.container, got.Container)
	require.Equal(t, c.incarnation, c.s.rt.incarnation(t, c.s, got.Container))
	_, err := c.s.Release(t.Context(), got.ID, false)
	require.NoError(t, err)
	require.Equal(t, "madeclaimed", outputsByHook(c.s.runsOf(client.RunFilter{Claim: got.ID}))["show"])
}

// requireRuns checks that the hooks of the container have started once each, and
// ended in these states.
func (c *crashScenario) requireRuns(states ...client.RunState) {
	var got []client.RunState
	for _, r := range c.s.runsOf(client.RunFilter{Container: c.container}) {
		got = append(got, r.State)
	}
	require.Equal(c.s.t, states, got)
}

// awaitGone waits until the container is destroyed.
func (c *crashScenario) awaitGone() {
	f := client.EventFilter{Types: []client.EventType{client.EventContainerDestroyed}, Container: c.container}
	c.s.awaitEvent(f, 1)
	require.NotContains(c.s.t, c.s.rt.leftovers(c.s.t, c.s), "/hostler-"+c.container)
}

// requireCreateAborted checks a container that was being created.
func (c *crashScenario) requireCreateAborted() {
	c.awaitGone()
	c.requireRuns(client.RunUnknown)
	c.s.letGo(c.s.awaitEvent(eventsOf(c.id, client.EventHookStarted), 2).Container) // its replacement
}

// requireDestroyResumed checks that the last hooks of a container were resumed.
func (c *crashScenario) requireDestroyResumed() {
	c.awaitGone()
	c.requireRuns(client.RunSucceeded, client.RunFailed)
	c.s.letGo(c.s.awaitEvent(eventsOf(c.id, client.EventContainerCreated), 2).Container) // its replacement
}

// requireClaimFailed checks a claim whose hooks were resumed and failed.
func (c *crashScenario) requireClaimFailed() {
	c.awaitGone()
	c.requireRuns(client.RunSucceeded, client.RunFailed)
	failed := c.s.awaitEvent(eventsOf(c.id, client.EventClaimFailed), 1)
	got, err := c.s.GetClaim(c.s.t.Context(), failed.Claim)
	require.NoError(c.s.t, err)
	require.Equal(c.s.t, client.ClaimFailed, got.State)
}

// requireClaimResumed checks a claim whose hook was resumed and succeeded: the
// next hook has run, and the tenant gets the claim when it retries.
func (c *crashScenario) requireClaimResumed() {
	t := c.s.t
	got, created, err := c.s.Claim(t.Context(), c.id, "ada", waitTimeout)
	require.NoError(t, err)
	require.False(t, created, "the claim existed already")
	require.Equal(t, client.ClaimActive, got.State)
	require.Equal(t, c.container, got.Container)
	require.Equal(t, c.incarnation, c.s.rt.incarnation(t, c.s, got.Container))
	c.requireRuns(client.RunSucceeded, client.RunSucceeded)
	require.Len(t, got.Hooks, 2)
	_, err = c.s.Release(t.Context(), got.ID, false)
	require.NoError(t, err)
}

func (c *crashScenario) requireReleased() {
	t := c.s.t
	c.s.awaitEvent(eventsOf(c.id, client.EventClaimReleased), 1)
	c.requireRuns(client.RunSucceeded, client.RunFailed)
	got, err := c.s.GetClaim(t.Context(), c.claim)
	require.NoError(t, err)
	require.Equal(t, client.ClaimReleased, got.State)
	require.NotEmpty(t, got.Warnings)
	container, err := c.s.Container(t.Context(), c.container)
	require.NoError(t, err)
	require.Equal(t, client.ContainerIdle, container.State, "the hooks have ended, and the container is reusable")
}

// makeOrphan creates a container with the installation's label that is not in
// its database.
func makeOrphan(t *testing.T, s *server) string {
	t.Helper()
	id := uuid.NewString()
	makeContainer(t, s.rt, s.engine, id)
	return id
}

func makeContainer(t *testing.T, rt backend, in runtime.Runtime, id string) {
	t.Helper()
	require.NoError(t, in.Create(t.Context(), runtime.Spec{
		ID: id, Workload: "unknown", Revision: "1", Image: rt.image(t),
		Command: []string{rt.program(t, "box"), "idle"},
	}))
	require.NoError(t, in.Start(t.Context(), id, 1))
}

// makeForeign creates a container of another installation. The returned function
// checks that it is unchanged.
func makeForeign(t *testing.T, s *server) func() {
	t.Helper()
	other := install(t, s.rt)
	id := uuid.NewString()
	makeContainer(t, s.rt, other.engine, id)
	was := s.rt.incarnation(t, other, id)
	return func() {
		t.Helper()
		status, err := other.engine.Status(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, runtime.Running, status.State)
		require.Equal(t, was, s.rt.incarnation(t, other, id))
	}
}

// A server that gets SIGTERM does not wait for a hook of a release beyond its
// shutdown timeouts. The hook continues until it ends, and the next server gets
// its outcome.
func TestStopDuringHook(t *testing.T) {
	t.Parallel()
	forBackends(t, []backend{processBackend{}}, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("kept", "pool: { min_idle: 1, max_size: 1, reuse: wipe }\nhooks: { pre_release: [{ command: [APP, hang], timeout: 80s }] }\n")
		c := &crashScenario{s: s, id: "kept"}
		var running errgroup.Group
		running.Go(func() error { c.prepareReleasing(); return nil })
		begun := s.awaitEvent(eventsOf("kept", client.EventHookStarted), 1)
		stopped := time.Now()
		require.Zero(t, s.stopWith(syscall.SIGTERM))
		require.Less(t, time.Since(stopped), 80*time.Second)
		require.NoError(t, running.Wait())
		s.start()
		s.awaitEvent(eventsOf("kept", client.EventClaimReleased), 1)
		runs := s.runsOf(client.RunFilter{Claim: begun.Claim})
		require.Len(t, runs, 1)
		require.Equal(t, client.RunTimedOut, runs[0].State)
	})
}

// A server that gets SIGTERM exits with 0 and keeps containers and claims.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("kept", countingHooks)
		got, _, err := s.Claim(t.Context(), "kept", "ada", waitTimeout)
		require.NoError(t, err)
		was := rt.incarnation(t, s, got.Container)
		require.Zero(t, s.stopWith(syscall.SIGTERM))
		require.Equal(t, was, rt.incarnation(t, s, got.Container))
		s.start()
		container, err := s.Container(t.Context(), got.Container)
		require.NoError(t, err)
		require.Equal(t, client.ContainerClaimed, container.State)
		held := &crashScenario{s: s, id: "kept", claim: got.ID, container: got.Container, incarnation: was}
		held.requireClaimed()
		s.requireEnds()
		s.requireEngineMatchesRecords()
	})
}
