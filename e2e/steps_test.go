package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// steps are the named steps of every flow, and those within an upload. A server
// is killed before and after each: between a record and its action, and between
// the action and the next record.
var steps = map[string][]string{
	"create":  {"record", "create", "pre_start", "start", "image_hooks", "post_start", "healthy", "post_create", "baseline", "ready", "idle", "confirm"},
	"claim":   {"reserve", "load", "compare", "stop", "wipe", "download", "seed", "restart", "post_start", "healthy", "post_claim", "activate"},
	"release": {"releasing", "end_uses", "pre_release", "upload", "dispose", "released"},
	"destroy": {"pre_destroy", "remove", "destroyed"},
	"force":   {"record", "pre_destroy", "remove", "removed"},

	"snapshot": {"object", "mark", "commit", "sweep", "collect"},
}

// allPointsStateful has hooks at all points, and tenants with state. All tenants
// use the same container, so that it is wiped between them.
const allPointsStateful = `
pool: { min_idle: 1, max_size: 1, reuse: wipe }
sync: { sink: { type: file } }
hooks:
  pre_start: [{ name: announce, builtin: log }]
  post_start: [{ name: start, command: [BOX, echo, s] }]
  post_create: [{ name: make, command: [BOX, echo, m] }]
  post_claim: [{ name: claim, command: [BOX, echo, c] }]
  pre_release: [{ name: release, command: [BOX, echo, r] }]
  pre_destroy: [{ name: destroy, command: [BOX, echo, d] }]
`

// crashingServer builds the server with failpoints, at which it kills itself.
var crashingServer = sync.OnceValues(func() (string, error) {
	return buildServer("hostler-crashes", "-tags=crashpoints")
})

// A server is killed before or after any step of any flow. The next one finishes
// or undoes the work in progress: what was answered holds, no tenant loses its
// files or sees another's, no hook starts twice, and nothing is left behind.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		for flow, names := range steps {
			for _, step := range names {
				for _, when := range []string{"before", "after"} {
					if failpoint := flow + "/" + step + "/" + when; isKilledAt(rt, failpoint) {
						t.Run(failpoint, func(t *testing.T) { runKilledAt(t, rt, failpoint) })
					}
				}
			}
		}
	})
}

// isKilledAt reports whether a server is killed at a failpoint on a backend: at
// each on one of them, and on the engines at a part of all in each run.
func isKilledAt(rt backend, failpoint string) bool {
	ofImage := strings.HasPrefix(failpoint, "create/image_hooks/")
	switch rt.name() {
	case "process":
		return !ofImage
	case "docker":
		return ofImage || testenv.Selects(10, failpoint)
	}
	return testenv.Selects(10, failpoint)
}

func runKilledAt(t *testing.T, rt backend, failpoint string) {
	t.Parallel()
	const id = "w"
	path, err := crashingServer()
	require.NoError(t, err)
	s := install(t, rt)
	s.program, s.env = path, []string{"HOSTLER_CRASH_AT=" + failpoint}
	s.start()
	v := &tenantSim{s: s, written: map[string]bool{}, promised: map[string]client.ClaimState{}}
	v.run(id)
	s.awaitCrash(failpoint)
	s.env = nil
	s.start()
	v.check(id)
	s.deleteWorkload(id)
	s.requireEnds()
	s.requireOnce(id)
	if hasImage(rt) {
		s.requireImageHooks(id, failpoint)
	}
	s.requireNothingLeft()
}

// tenantSim simulates tenants that claim one after the other until the server is
// killed, and records what they can expect.
type tenantSim struct {
	s        *server
	written  map[string]bool              // tenants that have written their note
	promised map[string]client.ClaimState // by claim
}

// run runs all flows until the server is killed.
func (v *tenantSim) run(id string) {
	s := v.s
	ctx := s.t.Context()
	file := fmt.Sprintf("%simage_hooks: %t\n", allPointsStateful, hasImage(s.rt))
	if _, err := s.Apply(ctx, id, []byte(workload(s.t, s.rt, id, file))); err != nil {
		return
	}
	var last client.Claim
	for i, tenant := range []string{"ada", "bob", "ada", "ada"} {
		if i == 3 && !v.restoreOldest(id, tenant) {
			return
		}
		got, _, err := s.Claim(ctx, id, tenant, waitTimeout)
		if err != nil {
			return
		}
		v.promised[got.ID] = client.ClaimActive
		v.readNote(got)
		if !v.written[tenant] {
			result, err := s.engine.Exec(ctx, got.Container, v.app("append", "/state/note", tenant))
			require.NoError(s.t, err)
			require.True(s.t, result.OK(), "%s", result.Stderr)
			v.written[tenant] = true
		} else {
			result, err := s.engine.Exec(ctx, got.Container, v.app("append", "/state/another", tenant))
			require.NoError(s.t, err)
			require.True(s.t, result.OK(), "%s", result.Stderr)
		}
		delete(v.promised, got.ID) // unknown until its release is answered
		if _, err := s.Release(ctx, got.ID, false); err != nil {
			return
		}
		v.promised[got.ID] = client.ClaimReleased
		last = got
	}
	_, _ = s.DestroyContainer(ctx, last.Container, false) // the server may be killed during the call
	forced, _, err := s.Claim(ctx, id, "cyd", waitTimeout)
	if err != nil {
		return
	}
	_, _ = s.DestroyContainer(ctx, forced.Container, true)
}

// restoreOldest makes the oldest snapshot of a tenant the current one, so that
// the tenant's last container holds another one. It returns false if the server
// was killed.
func (v *tenantSim) restoreOldest(id, tenant string) bool {
	s := v.s
	all, err := s.Snapshots(s.t.Context(), id, tenant)
	if err != nil {
		return false
	}
	require.Greater(s.t, len(all), 1)
	_, err = s.Restore(s.t.Context(), id, tenant, all[len(all)-1].ID)
	return err == nil
}

// readNote checks the note in a claim's container: it is the tenant's whole note,
// or there is none if the tenant wrote none.
func (v *tenantSim) readNote(c client.Claim) {
	t := v.s.t
	t.Helper()
	got, err := v.s.engine.Exec(t.Context(), c.Container, v.app("read", "/state/note"))
	require.NoError(t, err)
	if v.written[c.Tenant] {
		require.True(t, got.OK(), "%s has lost its note: %s", c.Tenant, got.Stderr)
		require.Equal(t, c.Tenant, got.Stdout.String())
		return
	}
	require.False(t, got.OK(), "%s finds a note: %s", c.Tenant, got.Stdout)
}

func (v *tenantSim) app(args ...string) runtime.Command {
	return runtime.Command{Args: append([]string{v.s.rt.program(v.s.t, "app")}, args...)}
}

// check checks that the server has kept its promises, and then claims and
// releases once more for every tenant.
func (v *tenantSim) check(id string) {
	s := v.s
	ctx := s.t.Context()
	for id, state := range v.promised {
		got, err := s.GetClaim(ctx, id)
		require.NoError(s.t, err)
		require.Equal(s.t, state, got.State)
	}
	for _, tenant := range []string{"ada", "bob", "cyd"} {
		s.releaseTenant(id, tenant)
	}
	for _, tenant := range []string{"ada", "bob"} {
		got, _, err := s.Claim(ctx, id, tenant, waitTimeout)
		require.NoError(s.t, err)
		v.readNote(got)
		released, err := s.Release(ctx, got.ID, false)
		require.NoError(s.t, err)
		require.Equal(s.t, client.ClaimReleased, released.State)
	}
}

// releaseTenant releases the live claims of a tenant, in any state.
func (s *server) releaseTenant(id, tenant string) {
	s.t.Helper()
	live, err := s.Claims(s.t.Context(), client.ClaimFilter{Workload: id, Tenant: tenant})
	require.NoError(s.t, err)
	for _, c := range live {
		got, err := s.Release(s.t.Context(), c.ID, false)
		require.NoError(s.t, err, "release claim %s, which is %s", c.ID, c.State)
		if c.State != client.ClaimPending {
			require.Equal(s.t, client.ClaimReleased, got.State)
		}
	}
}

// awaitCrash waits until the server has killed itself at the failpoint.
func (s *server) awaitCrash(failpoint string) {
	s.t.Helper()
	testenv.Await(s.t, s.ended, "the server crashes at "+failpoint)
}
