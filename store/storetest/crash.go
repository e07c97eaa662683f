package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// crashDir names the environment variable with the store's directory for the
// process that is killed.
const crashDir = "STORETEST_CRASH_DIR"

// Crash kills a process in the middle of its writes, repeatedly, and checks
// each time that no acknowledged change is lost and that records and log agree.
// The function open opens the store of a directory; sound checks the directory
// with the database's own tools. The killed process runs the test that calls
// Crash.
func Crash(t *testing.T, open func(t *testing.T, dir string) Store, sound func(t *testing.T, dir string)) {
	if dir := os.Getenv(crashDir); dir != "" {
		s := open(t, dir)
		PutWorkloads(t, s, web)
		require.NoError(t, writeForever(t.Context(), s))
		return
	}
	const rounds, answers = 4, 150
	dir := t.TempDir()
	answered := map[string]bool{}
	for range rounds {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		child.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); {
			id, ok := strings.CutPrefix(lines.Text(), "released ")
			if !ok {
				t.Log(lines.Text())
				continue
			}
			answered[id] = true
			// What it acknowledges between the signal and its exit counts as
			// well.
			if n++; n == answers {
				require.NoError(t, child.Process.Kill())
			}
		}
		require.Error(t, child.Wait(), "it was killed")
		sound(t, dir)
		afterCrash(t, open, dir, answered)
	}
}

// afterCrash checks the state that a new process finds.
func afterCrash(t *testing.T, open func(t *testing.T, dir string) Store, dir string, answered map[string]bool) {
	t.Helper()
	s := open(t, dir)
	defer s.Close() //nolint:errcheck // all is written
	requireLogMatchesRecords(t, s)
	require.NoError(t, advanceToEnd(t.Context(), s, "releases", countReleases))
	released := map[string]int{}
	for id := range answered {
		c, err := s.Claim(t.Context(), id)
		require.NoError(t, err, "an acknowledged claim is lost")
		require.Equal(t, claim.Released, c.State)
	}
	started, ends := map[string]int{}, map[string]int{}
	all := events(t, s, activity.Filter{}, 0)
	for i, e := range all {
		require.EqualValues(t, i+1, e.Seq, "numbers have no gaps")
		switch e.Type {
		case activity.ClaimReleased:
			released[e.Claim]++
		case activity.PoolRecovered: // of countReleases
			released[e.Message]++
		case activity.HookStarted:
			started[e.Run]++
		case activity.HookCompleted, activity.HookFailed: // of a claim that continued without it
			ends[e.Run]++
		}
	}
	for id, n := range released {
		require.Equal(t, 2, n, "the release of claim %s was handled once", id)
	}
	runs, err := s.Runs(t.Context(), hooks.RunFilter{})
	require.NoError(t, err)
	require.Len(t, started, len(runs))
	for _, r := range runs {
		require.Equal(t, 1, started[r.ID])
		want := 1
		if r.State == hooks.Running {
			want = 0
		}
		require.Equal(t, want, ends[r.ID], "ends of run %s, %s", r.ID, r.State)
	}
}

// writeForever claims and releases until the process is killed.
func writeForever(ctx context.Context, s Store) error {
	const tenants = 8
	if err := advanceToEnd(ctx, s, "releases", countReleases); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			changed := s.Changed()
			if err := advanceToEnd(ctx, s, "releases", countReleases); err != nil {
				return err
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil
			}
		}
	})
	for i := range tenants {
		g.Go(func() error {
			for n := 0; ; n++ {
				if err := runClaimLife(ctx, s, fmt.Sprint("tenant", i), n); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// countReleases writes one event for each release.
func countReleases(tx store.Tx, events []activity.Event) error {
	for _, e := range events {
		if e.Type != activity.ClaimReleased {
			continue
		}
		if err := tx.Append(activity.Event{Type: activity.PoolRecovered, Message: e.Claim}); err != nil {
			return err
		}
	}
	return nil
}

// runClaimLife takes one claim of the tenant through its life, a new one or one
// that an earlier process left, and occasionally creates or destroys a
// container.
func runClaimLife(ctx context.Context, s Store, tenant string, n int) error {
	asked := newReservation(tenant)
	c, err := s.Reserve(ctx, asked)
	if err == nil && c.Container == "" { // it has waited since an earlier call
		asked.Claim = c.ID
		c, err = s.Reserve(ctx, asked)
	}
	if errors.Is(err, claim.ErrNoIdleContainer) {
		return addContainerForWaiting(ctx, s)
	}
	if err != nil {
		return err
	}
	r := newAttempt(newID(), 1)
	r.Claim, r.Container, r.Tenant = c.ID, c.Container, tenant
	if err := s.RunStarted(ctx, r); err != nil {
		return err
	}
	if err := s.RunEnded(ctx, endedRun(r, hooks.Succeeded, 0)); err != nil {
		return err
	}
	next := map[claim.State]func(string) claim.Transition{
		claim.Pending: activeTransition, claim.Active: releasingTransition, claim.Releasing: releasedTransition,
	}
	for c.State.IsLive() {
		if c, err = s.UpdateClaim(ctx, next[c.State](c.ID)); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(os.Stdout, "released "+c.ID+"\n"); err != nil {
		return err
	}
	if n%5 != 0 {
		return nil
	}
	_, err = s.UpdateContainer(ctx, pool.BeginDestroy(c.Container, []pool.State{pool.Idle}, "test"))
	if errors.Is(err, pool.ErrConflict) {
		return nil // another claim has it now
	}
	if err == nil {
		_, err = s.UpdateContainer(ctx, destroyedTransition(c.Container))
	}
	return err
}

// addContainerForWaiting adds a container for a waiting claim.
func addContainerForWaiting(ctx context.Context, s Store) error {
	id := newID()
	err := s.AddContainer(ctx, pool.Container{ID: id, Workload: web, Revision: rev}, unlimited)
	if err != nil {
		return err
	}
	_, err = s.UpdateContainer(ctx, idleTransition(id, ""))
	return err
}
