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

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// hanging is a hook that is still under way when its server is killed.
const hanging = "[{ name: hang, command: [BOX, ignore-term, MARKER], timeout: 10s }]"

// ending is one that ends well, before or after the next server is there.
const ending = "[{ name: pause, command: [BOX, pause, '10000', MARKER], timeout: 30s }, { name: then, command: [APP, append, /state/log, then] }]"

// counted are hooks that tell how often they ran: in the container itself,
// whatever the records say.
const counted = `
pool: { min_idle: 1, max_size: 1, reuse: wipe }
hooks:
  post_create: [{ command: [APP, append, /state/log, made] }]
  post_claim: [{ command: [APP, append, /state/log, claimed] }]
  pre_release: [{ name: show, command: [APP, read, /state/log] }]
`

// crash is what one workload is doing when the server is killed.
type crash struct {
	s         *server
	id        string
	marker    string
	container string
	claim     string
	was       string // the container's incarnation
}

// crashes are the situations: how to get into each, and what must have become
// of it when the next server has taken over.
func crashes() map[string]struct {
	file          string
	before, after func(c *crash)
} {
	type situation = struct {
		file          string
		before, after func(c *crash)
	}
	hangs := func(point string) string {
		return "pool: { min_idle: 1, max_size: 1, reuse: wipe }\nhooks: { " + point + ": " + hanging + " }\n"
	}
	ends := func(point string) string { return strings.ReplaceAll(hangs(point), hanging, ending) }
	return map[string]situation{
		"idle":       {counted, (*crash).waits, (*crash).stillWaits},
		"held":       {counted, (*crash).holds, (*crash).stillHolds},
		"in-create":  {hangs("post_create"), (*crash).creates, (*crash).wasGivenUp},
		"in-claim":   {hangs("post_claim"), (*crash).claims, (*crash).claimFailed},
		"in-claim-2": {ends("post_claim"), (*crash).claims, (*crash).claimStands},
		"in-release": {hangs("pre_release"), (*crash).releases, (*crash).wasReleased},
		"in-destroy": {hangs("pre_destroy"), (*crash).destroys, (*crash).wasDestroyed},
	}
}

// A server that is killed while containers wait, are claimed, and in the
// middle of every kind of hook is followed by one that has the same claims on
// the same containers, goes on with hooks that are under way, gives up what was
// half made, runs no hook again, and touches nothing of others.
func TestKilledInEverySituation(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		foreign := makeForeign(t, s)
		all, ended := handed(t, s, slices.Sorted(maps.Keys(crashes()))...)
		s.kill()
		ended()
		orphan := makeOrphan(t, s)
		s.start()
		for id, situation := range crashes() {
			situation.after(all[id])
			s.delete(id)
		}
		s.await(activity.Filter{Types: []activity.Type{activity.ContainerDestroyed}, Container: orphan}, 1)
		s.requireEnds()
		s.requireNothingLeft()
		foreign()
	})
}

// handed gets a server into situations that the next one finds. Containers are
// made before any hook's time runs: that takes as long as it takes. The situations
// are over when ended returns.
func handed(t *testing.T, s *server, ids ...string) (all map[string]*crash, ended func()) {
	t.Helper()
	const making = "in-create" // its hook runs as soon as it is applied
	apply := func(id string) {
		c := &crash{s: s, id: id, marker: id + "-" + uuid.NewString()[:8]}
		all[id] = c
		s.apply(id, withMarker(crashes()[id].file, c.marker))
	}
	all = map[string]*crash{}
	for _, id := range ids {
		if id != making {
			apply(id)
		}
	}
	for id := range all {
		s.await(of(id, activity.ContainerCreated), 1)
	}
	if slices.Contains(ids, making) {
		apply(making)
		s.await(of(making, activity.HookStarted), 1)
	}
	var underWay errgroup.Group
	for id, c := range all {
		underWay.Go(func() error { crashes()[id].before(c); return nil })
	}
	for _, c := range all {
		c.ready()
	}
	return all, func() { require.NoError(t, underWay.Wait()) }
}

// withMarker puts what tells a test's processes from others into a file.
func withMarker(text, marker string) string { return strings.ReplaceAll(text, "MARKER", marker) }

// seen returns when a process with the marker runs in the container. Nobody
// tells when a hook has got to its own code, so we look.
func (s *server) seen(container, marker string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.rt.runs(s.t, container, marker) },
		patience, 50*time.Millisecond, "nothing with %s runs", marker)
}

// ready returns when the situation is there to be broken into.
func (c *crash) ready() {
	c.s.t.Helper()
	switch c.id {
	case "idle":
		c.container = c.s.await(of(c.id, activity.ContainerCreated), 1).Container
	case "held":
		c.container = c.s.await(of(c.id, activity.ClaimActivated), 1).Container
	default:
		c.container = c.s.await(of(c.id, activity.HookStarted), 1).Container
		c.s.seen(c.container, c.marker)
	}
	c.was = c.s.rt.incarnation(c.s.t, c.s, c.container)
}

func (c *crash) waits()   {}
func (c *crash) creates() {}

func (c *crash) holds() {
	got, _, err := c.s.Claim(c.s.t.Context(), c.id, "ada", patience)
	if err == nil {
		c.claim = got.ID
	}
}

// claims asks for what will not be answered.
func (c *crash) claims() { c.holds() }

func (c *crash) releases() {
	c.holds()
	_, _ = c.s.Release(c.s.t.Context(), c.claim, false) // the server is killed meanwhile
}

func (c *crash) destroys() {
	made := c.s.await(of(c.id, activity.ContainerCreated), 1)
	_, _ = c.s.DestroyContainer(c.s.t.Context(), made.Container, false) // the same
}

func (c *crash) stillWaits() {
	t := c.s.t
	got, _, err := c.s.Claim(t.Context(), c.id, "ada", 0)
	require.NoError(t, err)
	require.Equal(t, claim.Fresh, got.Source)
	c.stillThere(got)
}

func (c *crash) stillHolds() {
	t := c.s.t
	got, created, err := c.s.Claim(t.Context(), c.id, "ada", 0)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, c.claim, got.ID)
	c.stillThere(got)
}

// stillThere checks that the claim has the container of before, in which each
// hook has run once.
func (c *crash) stillThere(got claim.Claim) {
	t := c.s.t
	require.Equal(t, c.container, got.Container)
	require.Equal(t, c.was, c.s.rt.incarnation(t, c.s, got.Container))
	_, err := c.s.Release(t.Context(), got.ID, false)
	require.NoError(t, err)
	require.Equal(t, "madeclaimed", outputs(c.s.runsOf(hooks.RunFilter{Claim: got.ID}))["show"])
}

// onceAs checks that the one hook of the container has begun once, and how it
// has ended.
func (c *crash) onceAs(state hooks.RunState) {
	runs := c.s.runsOf(hooks.RunFilter{Container: c.container})
	require.Len(c.s.t, runs, 1)
	require.Equal(c.s.t, state, runs[0].State)
}

// isGone waits until the container is.
func (c *crash) isGone() {
	f := activity.Filter{Types: []activity.Type{activity.ContainerDestroyed}, Container: c.container}
	c.s.await(f, 1)
	require.NotContains(c.s.t, c.s.rt.left(c.s.t, c.s), "/hostler-"+c.container)
}

// wasGivenUp checks a container that was being made.
func (c *crash) wasGivenUp() {
	c.isGone()
	c.onceAs(hooks.Unknown)
}

// wasDestroyed checks that the last hook of a container was taken up.
func (c *crash) wasDestroyed() {
	c.isGone()
	c.onceAs(hooks.TimedOut)
}

// claimFailed checks a claim whose hook was taken up and ran into its timeout.
func (c *crash) claimFailed() {
	c.wasDestroyed()
	failed := c.s.await(of(c.id, activity.ClaimFailed), 1)
	got, err := c.s.ClaimRecord(c.s.t.Context(), failed.Claim)
	require.NoError(c.s.t, err)
	require.Equal(c.s.t, claim.Failed, got.State)
}

// claimStands checks a claim whose hook was taken up and ended well: the next
// one has run, and the tenant who asks again has it.
func (c *crash) claimStands() {
	t := c.s.t
	got, created, err := c.s.Claim(t.Context(), c.id, "ada", patience)
	require.NoError(t, err)
	require.False(t, created, "the one that was being made")
	require.Equal(t, claim.Active, got.State)
	require.Equal(t, c.container, got.Container)
	require.Equal(t, c.was, c.s.rt.incarnation(t, c.s, got.Container))
	runs := c.s.runsOf(hooks.RunFilter{Claim: got.ID})
	require.Len(t, runs, 2)
	for _, r := range runs {
		require.Equal(t, hooks.Succeeded, r.State, r.Hook)
	}
	require.Len(t, got.Hooks, 2)
	_, err = c.s.Release(t.Context(), got.ID, false)
	require.NoError(t, err)
}

func (c *crash) wasReleased() {
	t := c.s.t
	c.s.await(of(c.id, activity.ClaimReleased), 1)
	c.onceAs(hooks.TimedOut)
	got, err := c.s.ClaimRecord(t.Context(), c.claim)
	require.NoError(t, err)
	require.Equal(t, claim.Released, got.State)
	require.NotEmpty(t, got.Warnings)
	box, err := c.s.Container(t.Context(), c.container)
	require.NoError(t, err)
	require.Equal(t, pool.Idle, box.State, "the hook is over, and the container fit")
}

// makeOrphan makes a container with the installation's label that its database
// has never heard of.
func makeOrphan(t *testing.T, s *server) string {
	t.Helper()
	id := uuid.NewString()
	makeContainer(t, s.rt, s.engine, id)
	return id
}

func makeContainer(t *testing.T, rt backend, in runtime.Runtime, id string) {
	t.Helper()
	require.NoError(t, in.Create(t.Context(), runtime.Spec{
		ID: id, Workload: "somebody", Revision: "1", Image: rt.image(t),
		Command: []string{rt.program(t, "box"), "idle"},
	}))
	require.NoError(t, in.Start(t.Context(), id))
}

// makeForeign makes another installation's container. What it returns checks
// that nobody has touched it.
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

// A server that is told to stop does not wait for a hook of a release that takes
// longer than it has. The hook runs on to its own end, and the next server knows
// which that was.
func TestStoppedWhileAHookRuns(t *testing.T) {
	t.Parallel()
	on(t, []backend{processBackend{}}, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("kept", "pool: { min_idle: 1, max_size: 1, reuse: wipe }\nhooks: { pre_release: [{ command: [APP, hang], timeout: 55s }] }\n")
		c := &crash{s: s, id: "kept"}
		var underWay errgroup.Group
		underWay.Go(func() error { c.releases(); return nil })
		begun := s.await(of("kept", activity.HookStarted), 1)
		told := time.Now()
		require.Zero(t, s.end(syscall.SIGTERM))
		require.Less(t, time.Since(told), 55*time.Second)
		require.NoError(t, underWay.Wait())
		s.start()
		s.await(of("kept", activity.ClaimReleased), 1)
		runs := s.runsOf(hooks.RunFilter{Claim: begun.Claim})
		require.Len(t, runs, 1)
		require.Equal(t, hooks.TimedOut, runs[0].State)
	})
}

// A server that is told to stop ends well and leaves containers and claims as
// they are.
func TestStopped(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("kept", counted)
		got, _, err := s.Claim(t.Context(), "kept", "ada", patience)
		require.NoError(t, err)
		was := rt.incarnation(t, s, got.Container)
		require.Zero(t, s.end(syscall.SIGTERM))
		require.Equal(t, was, rt.incarnation(t, s, got.Container))
		s.start()
		box, err := s.Container(t.Context(), got.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Claimed, box.State)
		held := &crash{s: s, id: "kept", claim: got.ID, container: got.Container, was: was}
		held.stillHolds()
		s.requireEnds()
		s.requireInStep()
	})
}
