package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/runtime"
)

var execs = activity.Filter{Types: []activity.Type{activity.ExecSubject}}

// newOpen returns a command of a claim.
func newOpen(c claim.Claim, id string) access.OpenCommand {
	return access.OpenCommand{
		Claim: c.ID, ID: id, Workload: c.Workload, Container: c.Container, Tenant: c.Tenant, Fence: c.ContainerFence,
		Program: "make", Terminal: true,
	}
}

// dataOf returns the data of an event.
func dataOf(t *testing.T, e activity.Event) map[string]any {
	t.Helper()
	var data map[string]any
	require.NoError(t, json.Unmarshal(e.Data, &data))
	return data
}

// mustStartCommand records the start of a command.
func mustStartCommand(t *testing.T, s Store, c claim.Claim, id string) {
	t.Helper()
	added, err := s.StartCommand(t.Context(), newOpen(c, id), 0)
	require.NoError(t, err)
	require.True(t, added)
}

// endOfCommand returns the use that ends a command with an exit code.
func endOfCommand(c claim.Claim, id string, code int) access.Use {
	return access.Use{End: &access.CommandEnd{
		Claim: c.ID, ID: id, Output: 7, Result: &runtime.Result{ExitCode: code, Duration: 1500 * time.Microsecond},
	}}
}

func openCommands(t *testing.T, s Store) []access.OpenCommand {
	t.Helper()
	var all []access.OpenCommand
	for after := (access.OpenCommand{}); ; {
		page, err := s.OpenCommands(t.Context(), time.Now().Add(time.Hour), after, 2)
		require.NoError(t, err)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1]
	}
}

// execEnds returns how often the log has the end of each command.
func execEnds(t *testing.T, s Store, after int64) map[string]int {
	t.Helper()
	ends := map[string]int{}
	for _, e := range events(t, s, execs, after) {
		if e.Type != activity.ExecStarted {
			ends[dataOf(t, e)["command"].(string)]++
		}
	}
	return ends
}

// A command is open from its start to its end, both with their events. A second
// start of an open command, and a second end, change nothing.
func commandLife(t *testing.T, s Store) {
	ctx := t.Context()
	c := addTenantClaim(t, s, "ann")
	other := addTenantClaim(t, s, "bob")
	first := lastSeq(t, s)
	added, err := s.StartCommand(ctx, newOpen(c, "one"), 3)
	require.NoError(t, err)
	require.True(t, added)
	added, err = s.StartCommand(ctx, newOpen(c, "one"), 4)
	require.NoError(t, err)
	require.False(t, added)
	mustStartCommand(t, s, c, "two")
	mustStartCommand(t, s, other, "one")

	open := openCommands(t, s)
	require.Len(t, open, 3)
	want := newOpen(c, "one")
	want.Started, want.Actor = open[0].Started, activity.System
	require.Equal(t, want, open[0])
	require.WithinDuration(t, time.Now(), want.Started, time.Minute)
	none, err := s.OpenCommands(ctx, want.Started, access.OpenCommand{}, 10)
	require.NoError(t, err)
	require.Empty(t, none, "none is older than the first")

	ended, err := s.RecordUses(ctx, []access.Use{endOfCommand(c, "one", 0), endOfCommand(c, "one", 1), endOfCommand(c, "unknown", 0), endOfCommand(c, "two", 3)})
	require.NoError(t, err)
	require.Equal(t, []activity.Type{activity.ExecCompleted, activity.ExecFailed}, eventTypes(ended))
	ended, err = s.RecordUses(ctx, []access.Use{endOfCommand(c, "one", 0)})
	require.NoError(t, err)
	require.Empty(t, ended)
	require.Equal(t, []access.OpenCommand{open[2]}, openCommands(t, s))

	of := execs
	of.Claim = c.ID
	all := events(t, s, of, first)
	require.Equal(t, []activity.Type{activity.ExecStarted, activity.ExecStarted, activity.ExecCompleted, activity.ExecFailed}, eventTypes(all))
	for _, e := range all {
		require.Equal(t, []any{web, c.Container, "ann", c.ID, 0, false}, []any{e.Workload, e.Container, e.Tenant, e.Claim, e.Depth, e.Untrusted})
	}
	require.Equal(t, map[string]any{"command": "one", "omitted": 3.0, "program": "make", "terminal": true}, dataOf(t, all[0]))
	require.Equal(t, map[string]any{
		"command": "two", "duration_ms": 1.5, "exit_code": 3.0, "output": 7.0, "program": "make", "terminal": true, "timed_out": false,
	}, dataOf(t, all[3]))
}

// A command starts only while its claim has its container.
func commandStates(t *testing.T, s Store) {
	ctx := t.Context()
	addIdleContainer(t, s, rev, "")
	c, err := s.Reserve(ctx, newReservation("ann"))
	require.NoError(t, err)
	refused := func(c claim.Claim, want error) {
		t.Helper()
		_, err := s.StartCommand(ctx, newOpen(c, "x"), 0)
		require.ErrorIs(t, err, want)
	}
	refused(c, claim.ErrNotActive)
	c = mustUpdateClaim(t, s, activeTransition(c.ID))
	elsewhere := c
	elsewhere.Container = "another"
	refused(elsewhere, claim.ErrNotActive)
	elsewhere.ID = "unknown"
	refused(elsewhere, claim.ErrClaimNotFound)
	mustStartCommand(t, s, c, "ok")
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	refused(c, claim.ErrNotActive)
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	refused(c, claim.ErrNotActive)
	require.Empty(t, openCommands(t, s))
}

// No more commands of a claim are open than may, also if they start at once.
func commandBound(t *testing.T, s Store) {
	ctx := t.Context()
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	for i := range access.MaxOpenCommands - 4 {
		mustStartCommand(t, s, c, fmt.Sprint(i))
	}
	from := lastSeq(t, s)
	var g errgroup.Group
	refused := make(chan error, 8)
	for i := range 8 {
		g.Go(func() error {
			if _, err := s.StartCommand(ctx, newOpen(c, fmt.Sprint("at-once-", i)), 0); err != nil {
				refused <- err
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, refused, 4)
	require.ErrorIs(t, <-refused, access.ErrTooManyOpen)
	require.Len(t, openCommands(t, s), access.MaxOpenCommands)
	require.Len(t, events(t, s, execs, from), 4)
	mustStartCommand(t, s, other, "one")
	_, err := s.RecordUses(ctx, []access.Use{endOfCommand(c, "0", 0)})
	require.NoError(t, err)
	mustStartCommand(t, s, c, "again")
}

// What is open of a claim ends in the transaction of its end, and not before.
func commandEndsWithClaim(t *testing.T, s Store) {
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	mustStartCommand(t, s, other, "one")
	for _, id := range []string{"one", "two", "three"} {
		mustStartCommand(t, s, c, id)
	}
	from := lastSeq(t, s)
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	require.Empty(t, execEnds(t, s, from), "its commands may still end")
	_, err := s.RecordUses(t.Context(), []access.Use{endOfCommand(c, "two", 0)})
	require.NoError(t, err)
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	require.Equal(t, map[string]int{"one": 1, "two": 1, "three": 1}, execEnds(t, s, from))
	all := events(t, s, execs, from)
	require.Equal(t, []activity.Type{activity.ExecCompleted, activity.ExecFailed, activity.ExecFailed}, eventTypes(all))
	data := dataOf(t, all[1])
	require.Equal(t, "the claim was released", data["reason"])
	require.NotContains(t, data, "exit_code")
	ended, err := s.RecordUses(t.Context(), []access.Use{endOfCommand(c, "one", 0)})
	require.NoError(t, err)
	require.Empty(t, ended)
	require.Len(t, openCommands(t, s), 1, "that of the other claim")
}

// A command has one end when servers and the end of its claim record it at once.
func commandEndsOnce(t *testing.T, s Store) {
	ctx := t.Context()
	for round := range 5 {
		c, other := addTenantClaim(t, s, fmt.Sprint("ann", round)), addTenantClaim(t, s, fmt.Sprint("bob", round))
		want := map[string]int{}
		var uses, reversed []access.Use
		for i := range 20 {
			id := fmt.Sprintf("%02d", i)
			want[id] = 2 // one of each claim
			mustStartCommand(t, s, c, id)
			mustStartCommand(t, s, other, id)
			uses = append(uses, endOfCommand(c, id, 0), endOfCommand(other, id, 0))
			reversed = append([]access.Use{endOfCommand(other, id, 1), endOfCommand(c, id, 1)}, reversed...)
		}
		from := lastSeq(t, s)
		mustUpdateClaim(t, s, releasingTransition(c.ID))
		var g errgroup.Group
		for _, batch := range [][]access.Use{uses, reversed, uses[20:], reversed[20:]} {
			g.Go(func() error {
				_, err := s.RecordUses(ctx, batch)
				return err
			})
		}
		g.Go(func() error {
			_, err := s.UpdateClaim(ctx, releasedTransition(c.ID))
			return err
		})
		require.NoError(t, g.Wait())
		require.Equal(t, want, execEnds(t, s, from))
		require.Empty(t, openCommands(t, s))
	}
}

// Uses are in the log in the order in which they are recorded, ends among them.
func useOrder(t *testing.T, s Store) {
	c := addTenantClaim(t, s, "ann")
	mustStartCommand(t, s, c, "b")
	mustStartCommand(t, s, c, "a")
	from := lastSeq(t, s)
	file := func(typ activity.Type) access.Use {
		return access.Use{Event: activity.Event{Type: typ, Workload: web, Claim: c.ID, Message: "m"}}
	}
	recorded, err := s.RecordUses(t.Context(), []access.Use{
		file(activity.FileRead), endOfCommand(c, "b", 0), file(activity.FileWritten), endOfCommand(c, "a", 1), file(activity.RequestCompleted),
	})
	require.NoError(t, err)
	want := []activity.Type{activity.FileRead, activity.ExecCompleted, activity.FileWritten, activity.ExecFailed, activity.RequestCompleted}
	require.Equal(t, want, eventTypes(recorded))
	require.Equal(t, want, eventTypes(events(t, s, activity.Filter{}, from)))
}

// Of each claim and kind, the newest uses are kept, and what is still to be handled
// or delivered.
func pruneUses(t *testing.T, s Store) {
	ctx := t.Context()
	putEventHooks(t, s, web, "h")
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	of := func(c claim.Claim, n int, types ...activity.Type) {
		for range n {
			for _, typ := range types {
				_, err := s.RecordUses(ctx, []access.Use{{Event: activity.Event{Type: typ, Workload: web, Claim: c.ID, Message: "m"}}})
				require.NoError(t, err)
			}
		}
	}
	of(c, 5, activity.ExecStarted, activity.ExecFailed, activity.FileRead, activity.ClaimReleaseFailed)
	of(other, 5, activity.RequestCompleted, activity.ExecCompleted)
	prune := func(want int64) {
		t.Helper()
		n, err := s.PruneUses(ctx, 3)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	prune(0) // the cursor is before them
	kept := events(t, s, execs, 0)[1].Seq
	d := newDelivery("h", "k", kept)
	d.Priority = activity.DefaultPriority
	require.NoError(t, fanOutToEnd(ctx, s, 100, func(context.Context, []activity.Event) ([]delivery.Change, error) {
		return []delivery.Change{{Add: d}}, nil
	}))
	prune(6 + 2 + 2 + 2)
	count := func(c claim.Claim, types ...activity.Type) int {
		return len(events(t, s, activity.Filter{Claim: c.ID, Types: types}, 0))
	}
	require.Equal(t, 4, count(c, activity.ExecSubject), "three, and the one that is to be delivered")
	require.Equal(t, kept, events(t, s, execs, 0)[0].Seq)
	require.Equal(t, 3, count(c, activity.FileSubject))
	require.Equal(t, 5, count(c, activity.ClaimReleaseFailed))
	require.Equal(t, 3, count(other, activity.RequestSubject))
	require.Equal(t, 3, count(other, activity.ExecSubject))
	require.NoError(t, discardAll(ctx, s))
	prune(1)
}
