package claim_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const updatedFile = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 1, reuse: wipe }
sync: { sink: { type: file } }
`

// newOutdated returns a harness whose one idle container holds another snapshot
// than the tenant's current one: that has the note 1.
func newOutdated(t *testing.T) (*flowtest.Harness, claim.Claim) {
	t.Helper()
	h := flowtest.New(t)
	h.Apply(updatedFile)
	var c claim.Claim
	for _, note := range []string{"1", "2"} {
		c = h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", note)
		h.Release(c)
	}
	list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = h.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
	require.NoError(t, err)
	return h, c
}

// The steps of an update run in order: no process runs while the files are
// replaced, and the container holds no snapshot by then.
func TestUpdateStepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, last := newOutdated(t)
		held := "not read"
		h.RT.Before("stop", func(ctx context.Context, call fake.Call) error {
			c, err := h.Pools.Container(ctx, call.ID)
			held = c.Snapshot
			return err
		})
		h.ForgetCalls()
		c := h.Claim("w", "ada")
		require.Equal(t, []any{claim.Affinity, last.Container}, []any{c.Source, c.Container})
		calls := trace(h, c.Container)
		require.Equal(t, []string{"stop", "restart"}, []string{calls[0], calls[3]})
		require.ElementsMatch(t, []string{"scan_tree /data", "fill_tree /data"}, calls[1:3])
		require.Empty(t, held)
		container, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, c.Snapshot, container.Snapshot)
		require.Equal(t, "1", readNote(h, c))
	})
}

func readNote(h *flowtest.Harness, c claim.Claim) string {
	r, err := h.RT.Exec(h.T.Context(), c.Container, runtime.Command{Args: []string{"box", "read", "/data/note"}})
	require.NoError(h.T, err)
	return r.Stdout.String()
}

// A container whose update fails, at any step, or that is interrupted by a kill of
// the server, is never given out again.
func TestFailedUpdate(t *testing.T) {
	for _, step := range []string{"stop", "scan_tree", "scan_next", "fill_tree", "fill_create", "fill_close", "restart"} {
		for _, kill := range []bool{false, true} {
			t.Run(step, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, last := newOutdated(t)
					try := func() error {
						_, _, _ = h.Claims.Claim(context.Background(), claim.Request{Workload: "w", Tenant: "ada"}) // it may try another one
						return nil
					}
					if kill {
						reached, unblock := h.RT.Block(step + " " + last.Container)
						var g errgroup.Group
						g.Go(try) // the previous server's call; its result is not used
						<-reached
						h.Restart()
						unblock()
						require.NoError(t, g.Wait())
					} else {
						repair := h.RT.Break(step+" "+last.Container, runtime.ErrUnavailable)
						require.NoError(t, try())
						repair()
					}
					c := h.Claim("w", "ada")
					require.NotEqual(t, last.Container, c.Container)
					require.Equal(t, "1", readNote(h, c))
					h.Until("the container is destroyed", func() bool {
						old, err := h.Pools.Container(t.Context(), last.Container)
						return errors.Is(err, pool.ErrContainerNotFound) || err == nil && old.State == pool.Destroyed
					})
				})
			})
		}
	}
}

// A container that is not known to hold a snapshot of the tenant is wiped.
func TestUpdateOfUnknownContents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, last := newOutdated(t)
		_, err := h.DB.UpdateContainer(t.Context(), pool.Note(last.Container, pool.Idle, func(c *pool.Container) { c.Snapshot = "" }))
		require.NoError(t, err)
		h.ForgetCalls()
		c := h.Claim("w", "ada")
		require.Equal(t, []any{claim.Affinity, last.Container}, []any{c.Source, c.Container})
		require.Contains(t, trace(h, c.Container), "wipe")
		require.Equal(t, "1", readNote(h, c))
	})
}
