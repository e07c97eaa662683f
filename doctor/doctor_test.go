package doctor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

const file = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 1, max_size: 3, reuse: never }
sync: { sink: { type: file } }
`

// newDoctor is the doctor of a yard whose disk has so much room.
func newDoctor(y *flowtest.Harness, free uint64) *doctor.Doctor {
	return &doctor.Doctor{
		Engine: y.RT, Records: y.DB, Pools: y.Pools, Catalog: y.Pools.Catalog,
		Database: func(context.Context) (doctor.Database, error) { return doctor.Database{Kind: "SQLite"}, nil },
		Disk: func() (doctor.Disk, error) {
			return doctor.Disk{Path: "/data", Total: 1 << 40, Free: free}, nil
		},
	}
}

const freeSpace = 1 << 39

// What is wrong is found, told with its remedy, and nothing else is.
func TestFindings(t *testing.T) {
	tests := []struct {
		name     string
		stopped  bool // there are no loops, which would mend it
		setUp    func(y *flowtest.Harness)
		severity doctor.Severity
		check    string
		says     string
		hint     string
	}{
		{"a stranger", true, func(y *flowtest.Harness) {
			require.NoError(y.T, y.RT.Create(y.T.Context(), runtime.Spec{ID: "stray", Workload: "w", Image: "box", Command: []string{"box", "idle"}}))
		}, doctor.Warning, "unknown_container", "stray", "wait a minute"},
		{"a record without a container", true, func(y *flowtest.Harness) {
			record(y, pool.Idle)
		}, doctor.Error, "missing_container", "idle in the database", "hostler delete container c1"},
		{"a claimed container that ended unnoticed", true, func(y *flowtest.Harness) {
			record(y, pool.Idle)
			reserve(y, false)
		}, doctor.Error, "missing_container", "claimed in the database", "hostler release k1"},
		{"a container of a newer server", false, func(y *flowtest.Harness) {
			y.AwaitIdle("w", 1)
			y.RT.SetProtocols(runtime.Protocols{Oldest: 1, Current: 1})
			y.Restart()
			y.Until("there is one of this version", func() bool { return y.Count("w", pool.Idle) == 2 })
		}, doctor.Warning, "newer_container", "1 containers of w were made by a newer server", "finish the upgrade"},
		{"a claimed container that ended", false, func(y *flowtest.Harness) {
			c := y.Claim("w", "ada")
			y.AwaitIdle("w", 1)
			y.RT.Kill(c.Container)
			synctest.Wait()
		}, doctor.Error, "container_health", "of tenant ada is exited", "hostler logs --container"},
		{"a container that cannot be removed", true, func(y *flowtest.Harness) {
			record(y, pool.Destroying)
			advance(time.Hour)
		}, doctor.Warning, "stuck_container", "destroying for 1h0m0s", "pre_destroy"},
		{"a container that is not ready", true, func(y *flowtest.Harness) {
			record(y, pool.Creating)
			advance(time.Hour)
		}, doctor.Warning, "stuck_container", "creating for 1h0m0s", "hostler events --container c1"},
		{"a release that fails", false, func(y *flowtest.Harness) {
			c := y.Claim("w", "ada")
			y.AwaitIdle("w", 1)
			y.Bucket.Before(func(snapshottest.Call) error { return errors.New("the sink is unplugged") })
			_, err := y.Releases.Release(y.T.Context(), c.ID, release.Request{})
			require.Error(y.T, err)
		}, doctor.Error, "release_failed", "the sink is unplugged", "--discard"},
		{"a claim that is not ready", true, func(y *flowtest.Harness) {
			reserve(y, true)
			advance(time.Hour)
		}, doctor.Warning, "stuck_claim", "pending for 1h0m0s", "hostler release k1"},
		{"a release that does not end", true, func(y *flowtest.Harness) {
			record(y, pool.Idle)
			reserve(y, false)
			require.NoError(y.T, y.RT.Create(y.T.Context(), runtime.Spec{ID: "c1", Workload: "w", Image: "box", Command: []string{"box", "idle"}}))
			require.NoError(y.T, y.RT.Start(y.T.Context(), "c1"))
			_, err := y.DB.UpdateClaim(y.T.Context(), claim.Transition{ID: "k1", From: []claim.State{claim.Pending}, To: claim.Releasing})
			require.NoError(y.T, err)
			advance(time.Hour)
		}, doctor.Warning, "stuck_claim", "releasing for 1h0m0s", "hostler release k1"},
		{"a disk that is nearly full", true, func(*flowtest.Harness) {}, doctor.Error, "disk", "64 MiB left", "make room"},
		{"an engine that is away", true, func(y *flowtest.Harness) {
			y.RT.SetDown(true)
		}, doctor.Error, "engine", "does not answer", "start it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.NewStopped(t)
				y.Apply(file)
				if !test.stopped {
					y.Start()
					y.AwaitIdle("w", 1)
				}
				require.Equal(t, []doctor.Finding{}, newDoctor(y, freeSpace).Examine(t.Context()).Findings, "before the trouble")
				test.setUp(y)
				free := uint64(freeSpace)
				if test.check == "disk" {
					free = 64 << 20
				}
				report := newDoctor(y, free).Examine(t.Context())
				require.False(t, report.OK)
				require.Len(t, report.Findings, 1, "%+v", report.Findings)
				f := report.Findings[0]
				require.Equal(t, test.severity, f.Severity)
				require.Equal(t, test.check, f.Check)
				require.Contains(t, f.Message, test.says)
				require.Contains(t, f.Hint, test.hint)
			})
		})
	}
}

// record adds the record of container c1, which is not on the engine.
func record(y *flowtest.Harness, s pool.State) {
	y.T.Helper()
	w, err := y.Pools.Workload(y.T.Context(), "w")
	require.NoError(y.T, err)
	require.NoError(y.T, y.DB.AddContainer(y.T.Context(), pool.Container{
		ID: "c1", Workload: "w", Revision: w.Revision, State: pool.Creating,
	}, 9))
	if s != pool.Creating {
		_, err = y.DB.UpdateContainer(y.T.Context(), pool.Transition{
			ID: "c1", From: []pool.State{pool.Creating}, To: s, Set: func(c *pool.Container) { c.Health = pool.Healthy },
		})
		require.NoError(y.T, err)
	}
}

// reserve adds the pending claim k1, for c1 unless it has to wait.
func reserve(y *flowtest.Harness, wait bool) {
	y.T.Helper()
	w, err := y.Pools.Workload(y.T.Context(), "w")
	require.NoError(y.T, err)
	_, err = y.DB.Reserve(y.T.Context(), claim.Reservation{
		Claim: "k1", Workload: "w", Tenant: "ada", Revision: w.Revision, Reuse: workload.ReuseNever, EnqueueOnly: wait,
	})
	if !wait {
		require.NoError(y.T, err)
	}
}

// A pool that cannot be filled is worse when nothing waits in it.
func TestFailingPoolSeverity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "sync:", "hooks: { post_create: [{ command: [box, exit, '3'] }] }\nsync:", 1))
		y.Until("a failure", func() bool {
			s, err := y.Pools.Status(t.Context(), "w")
			require.NoError(t, err)
			return s.Fill.Failures > 0
		})
		findings := newDoctor(y, freeSpace).Examine(t.Context()).Findings
		require.NotEmpty(t, findings)
		require.Equal(t, "failing_pool", findings[0].Check)
		require.Equal(t, doctor.Error, findings[0].Severity)
		require.Contains(t, findings[0].Message, "post_create hook")
	})
}

// A hook whose end is not on record long after its timeout is found.
func TestStuckHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.NewStopped(t)
		y.Apply(file)
		require.NoError(t, y.DB.RunStarted(t.Context(), hooks.Run{
			ID: "r1", Attempt: 1, Point: hooks.PostClaim, Hook: "init", Workload: "w", Container: "c1", State: hooks.Running, StartedAt: time.Now(),
		}))
		require.Empty(t, newDoctor(y, freeSpace).Examine(t.Context()).Findings)
		advance(hooks.MaxTimeout + 2*time.Minute)
		findings := newDoctor(y, freeSpace).Examine(t.Context()).Findings
		require.Len(t, findings, 1)
		require.Equal(t, "stuck_hook", findings[0].Check)
		require.Contains(t, findings[0].Hint, "hostler logs r1")
	})
}

// A database that is away is one finding, and no record is asked for: each
// would take as long as it is patient.
func TestStoreUnavailableIsOneFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		d := newDoctor(y, freeSpace)
		d.Database = func(context.Context) (doctor.Database, error) { return doctor.Database{}, errors.New("no answer") }
		d.Records, d.Pools, d.Catalog = nil, nil, nil
		report := d.Examine(t.Context())
		require.Len(t, report.Findings, 1)
		require.Equal(t, "database", report.Findings[0].Check)
		require.Contains(t, report.Findings[0].Message, "no answer")
		require.True(t, report.Engine.Reachable)
	})
}

// advance lets time go by on the bubble's clock.
func advance(d time.Duration) { <-time.After(d) }
