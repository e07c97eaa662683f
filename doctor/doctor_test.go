package doctor_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/store"
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

// newDoctor returns the doctor of a harness whose disk has the given free
// space.
func newDoctor(h *flowtest.Harness, free uint64) *doctor.Doctor {
	return &doctor.Doctor{
		Engine: h.RT, Records: h.DB, Pools: h.Pools, Catalog: h.Pools.Catalog,
		Database: func(context.Context) (doctor.Database, error) { return doctor.Database{Kind: "SQLite"}, nil },
		Disk: func() (doctor.Disk, error) {
			return doctor.Disk{Path: "/data", Total: 1 << 40, Free: free}, nil
		},
	}
}

const freeSpace = 1 << 39

// Each problem is one finding with a hint, and there are no other findings.
func TestFindings(t *testing.T) {
	tests := []struct {
		name     string
		stopped  bool // without the loops, which would fix it
		setUp    func(h *flowtest.Harness)
		severity doctor.Severity
		check    string
		message  string
		hint     string
	}{
		{"an unknown container", true, func(h *flowtest.Harness) {
			require.NoError(h.T, h.RT.Create(h.T.Context(), runtime.Spec{ID: "stray", Workload: "w", Image: "box", Command: []string{"box", "idle"}}))
		}, doctor.Warning, "unknown_container", "stray", "wait a minute"},
		{"a record without a container", true, func(h *flowtest.Harness) {
			record(h, pool.Idle)
		}, doctor.Error, "missing_container", "idle in the database", "hostler delete container c1"},
		{"a claimed container with an unobserved exit", true, func(h *flowtest.Harness) {
			record(h, pool.Idle)
			reserve(h, false)
		}, doctor.Error, "missing_container", "claimed in the database", "hostler release k1"},
		{"a container of a newer server", false, func(h *flowtest.Harness) {
			h.AwaitIdle("w", 1)
			h.RT.SetProtocols(runtime.Protocols{Oldest: 1, Current: 1})
			h.Restart()
			h.Until("there is one of this version", func() bool { return h.Count("w", pool.Idle) == 2 })
		}, doctor.Warning, "newer_container", "1 container of w made by a newer server remains unchanged", "finish the upgrade"},
		{"a claimed container that exited", false, func(h *flowtest.Harness) {
			c := h.Claim("w", "ada")
			h.AwaitIdle("w", 1)
			h.RT.Kill(c.Container)
			synctest.Wait()
		}, doctor.Error, "container_health", "of tenant ada is exited", "hostler logs --container"},
		{"a claimed container that an operator destroyed", false, func(h *flowtest.Harness) {
			c := h.Claim("w", "ada")
			h.AwaitIdle("w", 1)
			require.NoError(h.T, h.Pools.DestroyContainer(h.T.Context(), c.Container, true))
			synctest.Wait()
		}, doctor.Error, "container_health", "an operator destroyed it", "`hostler release"},
		{"a container that cannot be removed", true, func(h *flowtest.Harness) {
			record(h, pool.Destroying)
			advance(time.Hour)
		}, doctor.Warning, "stuck_container", "destroying for 1h0m0s", "pre_destroy"},
		{"a container that is not ready", true, func(h *flowtest.Harness) {
			record(h, pool.Creating)
			advance(time.Hour)
		}, doctor.Warning, "stuck_container", "creating for 1h0m0s", "hostler events --container c1"},
		{"a release that fails", false, func(h *flowtest.Harness) {
			c := h.Claim("w", "ada")
			h.AwaitIdle("w", 1)
			h.Bucket.Before(func(snapshottest.Call) error { return errors.New("the sink is unplugged") })
			_, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{})
			require.Error(h.T, err)
		}, doctor.Error, "release_failed", "the sink is unplugged", "--discard"},
		{"a claim that is not ready", true, func(h *flowtest.Harness) {
			reserve(h, true)
			advance(time.Hour)
		}, doctor.Warning, "stuck_claim", "pending for 1h0m0s", "hostler release k1"},
		{"a release that does not end", true, func(h *flowtest.Harness) {
			record(h, pool.Idle)
			reserve(h, false)
			require.NoError(h.T, h.RT.Create(h.T.Context(), runtime.Spec{ID: "c1", Workload: "w", Image: "box", Command: []string{"box", "idle"}}))
			require.NoError(h.T, h.RT.Start(h.T.Context(), "c1", 1))
			for _, m := range []claim.Transition{claim.Activate("k1", claim.Fresh, nil), claim.BeginRelease("k1", "requested", false)} {
				_, err := h.DB.UpdateClaim(h.T.Context(), m)
				require.NoError(h.T, err)
			}
			advance(time.Hour)
		}, doctor.Warning, "stuck_claim", "releasing for 1h0m0s", "hostler release k1"},
		{"a disk that is nearly full", true, func(*flowtest.Harness) {}, doctor.Error, "disk", "64 MiB left", "free space"},
		{"an unavailable engine", true, func(h *flowtest.Harness) {
			h.RT.SetDown(true)
		}, doctor.Error, "engine", "does not answer", "start it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.NewStopped(t)
				h.Apply(file)
				if !test.stopped {
					h.Start()
					h.AwaitIdle("w", 1)
				}
				require.Equal(t, []doctor.Finding{}, newDoctor(h, freeSpace).Examine(t.Context()).Findings, "before setUp")
				test.setUp(h)
				free := uint64(freeSpace)
				if test.check == "disk" {
					free = 64 << 20
				}
				report := newDoctor(h, free).Examine(t.Context())
				require.False(t, report.OK)
				require.Len(t, report.Findings, 1, "%+v", report.Findings)
				f := report.Findings[0]
				require.Equal(t, test.severity, f.Severity)
				require.Equal(t, test.check, f.Check)
				require.Contains(t, f.Message, test.message)
				require.Contains(t, f.Hint, test.hint)
				if strings.HasPrefix(test.hint, "`") {
					require.True(t, strings.HasPrefix(f.Hint, test.hint), f.Hint)
				}
			})
		})
	}
}

// record adds the record of container c1, which is not on the engine.
func record(h *flowtest.Harness, s pool.State) {
	h.T.Helper()
	w, err := h.Pools.Workload(h.T.Context(), "w")
	require.NoError(h.T, err)
	require.NoError(h.T, h.DB.AddContainer(h.T.Context(), pool.Container{
		ID: "c1", Workload: "w", Revision: w.Revision, State: pool.Creating,
	}, 9))
	if s != pool.Creating {
		_, err = h.DB.UpdateContainer(h.T.Context(), pool.Transition{
			ID: "c1", From: []pool.State{pool.Creating}, To: s, Set: func(c *pool.Container) { c.Health = pool.Healthy },
		})
		require.NoError(h.T, err)
	}
}

// reserve adds the pending claim k1, for c1 unless it has to wait.
func reserve(h *flowtest.Harness, wait bool) {
	h.T.Helper()
	w, err := h.Pools.Workload(h.T.Context(), "w")
	require.NoError(h.T, err)
	_, err = h.DB.Reserve(h.T.Context(), claim.Reservation{
		Claim: "k1", Workload: "w", Tenant: "ada", Revision: w.Revision, Reuse: workload.ReuseNever, EnqueueOnly: wait,
	})
	if !wait {
		require.NoError(h.T, err)
	}
}

// A failing pool is an error when it has no idle container.
func TestFailingPoolSeverity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(strings.Replace(file, "sync:", "hooks: { post_create: [{ command: [box, exit, '3'] }] }\nsync:", 1))
		for failures, message := range []string{"the last container creation of w failed: ", "the last 2 container creations of w failed: "} {
			h.Until("a failure", func() bool {
				s, err := h.Pools.Status(t.Context(), "w")
				require.NoError(t, err)
				return s.Fill.Failures > failures
			})
			findings := newDoctor(h, freeSpace).Examine(t.Context()).Findings
			require.NotEmpty(t, findings)
			require.Equal(t, "failing_pool", findings[0].Check)
			require.Equal(t, doctor.Error, findings[0].Severity)
			require.Contains(t, findings[0].Message, message+"post_create hook")
		}
	})
}

// The hint of a failing pool names the container's output only if there is some: a
// container whose image could not be pulled has printed nothing.
func TestFailingPoolDetails(t *testing.T) {
	for failing, hint := range map[string]string{
		"create": "hostler events --container ",
		"check":  "hostler logs --container ",
	} {
		t.Run(failing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.RT.AddProgram("printer", func(_ context.Context, p *fake.Proc) int {
					io.WriteString(p.Stdout, "starting\n") //nolint:errcheck // it is in memory
					return fake.Park
				})
				if failing == "create" {
					h.RT.Break(failing, errors.New("no such image"))
				}
				h.Apply("id: w\nimage: box\ncommand: [printer]\npool: { min_idle: 1, max_size: 1 }\nhealthcheck: { test: [CMD, box, exit, '7'], retries: 1 }\n")
				h.Until("a failure", func() bool { return len(h.Events(activity.PoolWarning)) > 0 })
				findings := newDoctor(h, freeSpace).Examine(t.Context()).Findings
				require.NotEmpty(t, findings)
				require.Equal(t, "failing_pool", findings[0].Check)
				require.Contains(t, findings[0].Hint, hint+findings[0].Container)
			})
		})
	}
}

// A hook whose end is not recorded long after its timeout is a finding.
func TestStuckHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		h.Apply(file)
		require.NoError(t, h.DB.RunStarted(t.Context(), hooks.Run{
			ID: "r1", Attempt: 1, Point: hooks.PostClaim, Hook: "init", Workload: "w", Container: "c1", State: hooks.Running, StartedAt: time.Now(),
		}))
		require.Empty(t, newDoctor(h, freeSpace).Examine(t.Context()).Findings)
		advance(hooks.MaxTimeout + 2*time.Minute)
		findings := newDoctor(h, freeSpace).Examine(t.Context()).Findings
		require.Len(t, findings, 1)
		require.Equal(t, "stuck_hook", findings[0].Check)
		require.Contains(t, findings[0].Hint, "hostler logs r1")
	})
}

// A follower of the log that does not advance for long is a finding.
func TestStuckCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		step := func() {
			_, err := h.DB.Advance(t.Context(), "hooks", 10, func(store.Tx, []activity.Event) error { return nil })
			require.NoError(t, err)
		}
		step()
		advance(time.Hour)
		h.Apply(file)
		require.Empty(t, newDoctor(h, freeSpace).Examine(t.Context()).Findings)
		advance(time.Hour)
		findings := newDoctor(h, freeSpace).Examine(t.Context()).Findings
		require.Len(t, findings, 1)
		require.Equal(t, "stuck_cursor", findings[0].Check)
		require.Contains(t, findings[0].Message, `"hooks" has not handled 2 events, the first for 1h`)
		step()
		require.Empty(t, newDoctor(h, freeSpace).Examine(t.Context()).Findings)
	})
}

// An unavailable database is one finding, and no record is read, because each
// read would take until its timeout.
func TestStoreUnavailableIsOneFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		d := newDoctor(h, freeSpace)
		d.Database = func(context.Context) (doctor.Database, error) { return doctor.Database{}, errors.New("no answer") }
		d.Records, d.Pools, d.Catalog = nil, nil, nil
		report := d.Examine(t.Context())
		require.Len(t, report.Findings, 1)
		require.Equal(t, "database", report.Findings[0].Check)
		require.Contains(t, report.Findings[0].Message, "no answer")
		require.True(t, report.Engine.Reachable)
	})
}

// advance advances the bubble's clock.
func advance(d time.Duration) { <-time.After(d) }

// The index of a run counts the hooks of the image first: each hook has its own
// timeout. A hook of the image has the one of its point, bounded as the others.
func TestStuckHookBehindImageHooks(t *testing.T) {
	const hooked = file + "image_hooks: true\nstop_grace_period: 10s\nhooks: { post_claim: [{ name: own, command: [a], timeout: 5m }] }\n"
	for name, k := range map[string]struct {
		source string
		run    hooks.Run
		limit  time.Duration
	}{
		"of the image":            {hooked, hooks.Run{Point: hooks.PostClaim, Hook: "image:a", Index: 0}, 30 * time.Second},
		"of the file":             {hooked, hooks.Run{Point: hooks.PostClaim, Hook: "own", Index: 1}, 5 * time.Minute},
		"of the image at the end": {hooked, hooks.Run{Point: hooks.PreDestroy, Hook: "image:b", Index: 0}, 10 * time.Second},
		"without image_hooks": {strings.Replace(hooked, "image_hooks: true", "", 1),
			hooks.Run{Point: hooks.PostClaim, Hook: "own", Index: 0}, 5 * time.Minute},
		"no such hook": {hooked, hooks.Run{Point: hooks.PostClaim, Hook: "own", Index: 2}, hooks.MaxTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.NewStopped(t)
				h.Apply(k.source)
				record(h, pool.Creating)
				list := []runtime.ImageHook{{Point: "post_claim", Path: "/a"}, {Point: "pre_destroy", Path: "/b"}}
				_, err := h.DB.UpdateContainer(t.Context(), pool.Note("c1", pool.Creating, func(c *pool.Container) { c.ImageHooks = list }))
				require.NoError(t, err)
				k.run.ID, k.run.Attempt, k.run.Workload, k.run.Container, k.run.State, k.run.StartedAt = "r1", 1, "w", "c1", hooks.Running, time.Now()
				require.NoError(t, h.DB.RunStarted(t.Context(), k.run))
				isStuck := func() bool {
					return slices.ContainsFunc(newDoctor(h, freeSpace).Examine(t.Context()).Findings, func(f doctor.Finding) bool { return f.Check == "stuck_hook" })
				}
				advance(k.limit + 50*time.Second)
				require.False(t, isStuck())
				advance(20 * time.Second)
				require.True(t, isStuck())
			})
		})
	}
}
