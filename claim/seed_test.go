package claim_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

const seededFile = `
id: w
image: box
command: [box, idle]
volumes:
  state: { target: /data, seed: state }
  custom: [{ name: cache, target: /cache, seed: cache }]
healthcheck: { test: [CMD, box, echo, healthy], interval: 10s, retries: 1, start_period: 1s }
pool: { min_idle: 0, max_size: 1, reuse: wipe }
sync:
  sink: { type: file }
  mappings: [{ path: sessions }, { path: /, pattern: config.json }]
hooks:
  post_claim: [{ name: migrate, command: [box, echo, migrated] }]
`

// newSeeded returns a harness with the workload and seed files for its volumes.
func newSeeded(t *testing.T, source string) *flowtest.Harness {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"state/config.json", "state/readme", "state/sessions/example", "cache/model"} {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte("seed"), 0o644))
	}
	h := flowtest.New(t)
	_, err := h.Pools.Apply(t.Context(), []byte(source), "workload.yaml", dir)
	require.NoError(t, err)
	return h
}

// readFiles returns the contents of a tenant's files, "-" for a missing one.
func readFiles(h *flowtest.Harness, c claim.Claim) (found [4]string) {
	h.T.Helper()
	for i, name := range []string{"/data/config.json", "/data/readme", "/data/sessions/example", "/cache/model"} {
		r, err := h.RT.Exec(h.T.Context(), c.Container, runtime.Command{Args: []string{"box", "read", name}})
		require.NoError(h.T, err)
		found[i] = "-"
		if r.OK() {
			found[i] = r.Stdout.String()
		}
	}
	return found
}

// execTestprog runs the test program in a claim's container.
func execTestprog(h *flowtest.Harness, c claim.Claim, args ...string) {
	h.T.Helper()
	r, err := h.RT.Exec(h.T.Context(), c.Container, runtime.Command{Args: append([]string{"box"}, args...)})
	require.NoError(h.T, err)
	require.True(h.T, r.OK(), "%v: %+v", args, r)
}

// Every claim finds the seed of each volume, except for paths that the tenant's
// own state covers: files that it wrote are not overwritten, files that it
// removed stay removed, and paths without a mapping come from the seed.
func TestSeedAndState(t *testing.T) {
	all := [4]string{"seed", "seed", "seed", "seed"}
	for name, tt := range map[string]struct {
		change []string  // in seededFile
		want   [4]string // at the tenant's next claim, in another container
	}{
		"kept":         {nil, [4]string{"ada's", "seed", "-", "seed"}},
		"other":        {[]string{"reuse: wipe", "reuse: never"}, [4]string{"ada's", "seed", "-", "seed"}},
		"no restart":   {[]string{"image: box", "image: box\nrestart: never"}, [4]string{"ada's", "seed", "-", "seed"}},
		"no on_claim":  {[]string{"  sink:", "  policy: { on_claim: false }\n  sink:"}, all},
		"not uploaded": {[]string{"  sink:", "  policy: { on_release: false }\n  sink:"}, all},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newSeeded(t, flowtest.Edit(seededFile, tt.change...))
				ada := h.Claim("w", "ada")
				require.Equal(t, claim.Fresh, ada.Source)
				require.Equal(t, all, readFiles(h, ada))
				execTestprog(h, ada, "write", "/data/config.json", "ada's")
				execTestprog(h, ada, "write", "/data/readme", "ada's")
				execTestprog(h, ada, "remove", "/data/sessions/example")
				execTestprog(h, ada, "remove", "/cache/model")
				h.Release(ada)
				bob := h.Claim("w", "bob")
				require.Equal(t, name != "other", bob.Source == claim.Recycled)
				require.Equal(t, all, readFiles(h, bob), "no files of ada, and the whole seed")
				h.Release(bob)
				again := h.Claim("w", "ada")
				require.Equal(t, tt.want, readFiles(h, again))
			})
		})
	}
}

// A container that holds its tenant's latest state is not seeded again.
func TestSeedAndAffinity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSeeded(t, seededFile)
		ada := h.Claim("w", "ada")
		execTestprog(h, ada, "write", "/cache/model", "ada's")
		h.Release(ada)
		again := h.Claim("w", "ada")
		require.Equal(t, claim.Affinity, again.Source)
		require.Equal(t, "ada's", readFiles(h, again)[3])
	})
}

// The steps of a claim on another tenant's container run in order.
func TestRecycleStepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSeeded(t, seededFile)
		ada := h.Claim("w", "ada")
		execTestprog(h, ada, "write", "/data/config.json", "ada's")
		h.Release(ada)
		h.Release(h.Claim("w", "bob"))
		h.ForgetCalls()
		again := h.Claim("w", "ada")
		require.Equal(t, claim.Recycled, again.Source)
		require.Equal(t, []string{
			"wipe", "put /data", "put /cache", "fill_tree /data", "fill_tree /data", "restart", "exec box echo healthy", "exec box echo migrated",
		}, trace(h, again.Container))
	})
}

// A fresh container is restarted after a claim has seeded it.
func TestRestartAfterSeeding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSeeded(t, seededFile)
		c := h.Claim("w", "ada")
		require.Equal(t, claim.Fresh, c.Source)
		calls := trace(h, c.Container)
		require.Equal(t, []string{
			"put /data", "put /cache", "restart", "exec box echo healthy", "exec box echo migrated",
		}, calls[len(calls)-5:])
	})
}

// The steps of a creation run in order: no hook runs before the container is
// healthy.
func TestCreateStepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		head, tail, _ := strings.Cut(seededFile, "sync:")
		_, tail, _ = strings.Cut(tail, "hooks:")
		h := newSeeded(t, head+"hooks:"+flowtest.Edit(tail, "post_claim", "post_create"))
		c := h.Claim("w", "ada")
		require.Equal(t, []string{
			"create", "start", "put /data", "put /cache", "restart", "exec box echo healthy", "exec box echo migrated", "baseline",
		}, trace(h, c.Container)[:8])
	})
}

// A tenant can claim again after its post_claim hook has failed.
func TestClaimAgainAfterPostClaimFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSeeded(t, seededFile)
		h.RT.BreakOnce("exec * box echo migrated", runtime.ErrContainerExited)
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.Error(t, err)
		c := h.Claim("w", "ada")
		require.Equal(t, claim.Active, c.State)
		_, err = h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.Zero(t, h.Count("w", pool.Claimed))
	})
}

// A used container keeps its tenant until it is wiped. One that is returned
// before the wipe, because the sink is unavailable, does not count as the next
// tenant's own.
func TestReturnedContainerKeepsTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSeeded(t, flowtest.Edit(seededFile, "  sink:", "  policy: { on_release: false }\n  sink:"))
		ada := h.Claim("w", "ada")
		execTestprog(h, ada, "write", "/data/readme", "ada's")
		h.Release(ada)
		h.Bucket.Before(func(snapshottest.Call) error { return errors.New("sink unavailable") })
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "bob"})
		require.ErrorContains(t, err, "sink unavailable")
		h.Bucket.ClearFailures()
		require.Equal(t, "ada", containerRecord(h, ada.Container).Tenant)
		bob := h.Claim("w", "bob")
		require.Equal(t, claim.Recycled, bob.Source)
		require.Equal(t, "bob", containerRecord(h, bob.Container).Tenant)
		require.Equal(t, [4]string{"seed", "seed", "seed", "seed"}, readFiles(h, bob), "no files of ada")
	})
}

// pre_destroy gets the tenant whose files are in a container that could not be
// wiped.
func TestPreDestroyTenantAfterFailedWipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1) + "hooks:\n  pre_destroy: [{ name: archive, command: [box, echo, archived] }]\n")
		ada := h.Claim("w", "ada")
		h.Release(ada)
		h.RT.BreakOnce("wipe "+ada.Container, runtime.ErrWipeUnverified)
		bob := h.Claim("w", "bob")
		require.NotEqual(t, ada.Container, bob.Container)
		h.Until("it to be destroyed", func() bool { return containerRecord(h, ada.Container).State == pool.Destroyed })
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Container: ada.Container})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, "ada", runs[0].Tenant)
	})
}

// Every hook and every copy into a container carries the fence of its flow, so
// that one of an earlier flow that is late does not reach the next tenant. A
// health check belongs to no flow.
func TestHooksAndCopiesCarryFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSeeded(t, strings.Replace(seededFile, "hooks:\n", `hooks:
  post_create: [{ name: created, command: [box, echo, created] }]
  pre_release: [{ name: saved, command: [box, echo, saved] }]
`, 1))
		seen := make(map[string]bool)
		check := func(ctx context.Context, call fake.Call) error {
			c, err := h.Pools.Container(ctx, call.ID)
			if err != nil {
				return err
			}
			name, want := call.Op, c.Fence
			if len(call.Command.Args) == 3 {
				name = call.Command.Args[2]
			}
			if name == "healthy" {
				want = 0
			}
			if call.Fence != want {
				t.Errorf("%s has the fence %d, want %d", call, call.Fence, want)
			}
			seen[name] = true
			return nil
		}
		h.RT.Before("exec", check)
		h.RT.Before("put", check)
		h.RT.Before("fill_tree", check)
		for _, tenant := range []string{"ada", "bob", "ada"} { // seeds, then downloads too
			c := h.Claim("w", tenant)
			require.NotZero(t, c.ContainerFence)
			h.Release(c)
		}
		for _, name := range []string{"put", "fill_tree", "created", "migrated", "saved", "healthy"} {
			require.True(t, seen[name], name)
		}
	})
}
