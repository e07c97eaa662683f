package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/wait"
)

// newWait returns a wait of a claim as a request makes it.
func newWait(c claim.Claim, name string, points ...hooks.Point) wait.Wait {
	return wait.Wait{ID: newID(), Claim: c.ID, Name: name, Type: "review", TimeoutMS: 60_000, Points: points}
}

// claimWithContainer adds an active claim that has a container.
func claimWithContainer(t *testing.T, s Store, tenant string) claim.Claim {
	t.Helper()
	addIdleContainer(t, s, rev, "")
	return addActiveClaim(t, s, tenant)
}

// startWait starts a wait, which must succeed.
func startWait(t *testing.T, s Store, w wait.Wait) wait.Wait {
	t.Helper()
	w, created, err := s.StartWait(t.Context(), w)
	require.NoError(t, err)
	require.True(t, created)
	return w
}

// changeWait makes a change of a wait.
func changeWait(t *testing.T, s Store, w wait.Wait, apply func(*wait.Wait, time.Time) []activity.Event) (wait.Wait, error) {
	t.Helper()
	return s.UpdateWait(t.Context(), wait.Transition{Key: w.Key(), From: w.State, Round: w.Round, Apply: apply})
}

func expire(w *wait.Wait, now time.Time) []activity.Event { return w.Expire(now) }

// sendSignal sends a signal, which must succeed.
func sendSignal(t *testing.T, s Store, c claim.Claim, name, data string) (*wait.Wait, int) {
	t.Helper()
	w, kept, err := s.SendSignal(t.Context(), wait.Signal{ID: newID(), Claim: c.ID, Name: name, Data: json.RawMessage(data)})
	require.NoError(t, err)
	return w, kept
}

// openWaits returns how many waits the record of a claim counts.
func openWaits(t *testing.T, s Store, c claim.Claim) int {
	t.Helper()
	c, err := s.Claim(t.Context(), c.ID)
	require.NoError(t, err)
	return c.Waits
}

// A wait without wait_start hooks waits at once. The same request and the same name
// return it; another claim has waits of its own.
func waitBegins(t *testing.T, s Store) {
	c, other := claimWithContainer(t, s, "ada"), claimWithContainer(t, s, "bob")
	first := newWait(c, "a")
	first.Request = "r"
	w := startWait(t, s, first)
	require.Equal(t, wait.Waiting, w.State)
	require.Equal(t, []string{web, "ada", c.Container}, []string{w.Workload, w.Tenant, w.Container})
	require.Equal(t, time.Minute, w.Deadline.Sub(*w.StartedAt))
	begun := time.Now()
	got, left, err := s.Wait(t.Context(), w.ID)
	require.NoError(t, err)
	require.Equal(t, w, got)
	requireLeft(t, w, left, begun)
	repeated := newWait(c, "a")
	repeated.Request = "r"
	for _, again := range []wait.Wait{repeated, newWait(c, "a")} {
		got, created, err := s.StartWait(t.Context(), again)
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, w.ID, got.ID)
	}
	for name, change := range map[string]func(w *wait.Wait){
		"name": func(w *wait.Wait) { w.Name = "b" }, "type": func(w *wait.Wait) { w.Type = "x" }, "timeout": func(w *wait.Wait) { w.TimeoutMS++ },
		"on_timeout": func(w *wait.Wait) { w.OnTimeout = wait.Abort }, "context": func(w *wait.Wait) { w.Context = []byte(`{"b":2}`) },
	} {
		another := repeated
		change(&another)
		_, _, err = s.StartWait(t.Context(), another)
		require.ErrorIs(t, err, wait.ErrOtherRequest, name)
	}
	clash := newWait(c, "a")
	clash.Type = "other"
	_, _, err = s.StartWait(t.Context(), clash)
	require.ErrorIs(t, err, wait.ErrNameInUse)
	require.Equal(t, wait.Starting, startWait(t, s, newWait(other, "a", hooks.WaitStart)).State)
	require.Equal(t, []int{1, 1}, []int{openWaits(t, s, c), openWaits(t, s, other)})

	open, err := s.OpenWaits(t.Context())
	require.NoError(t, err)
	require.Len(t, open, 2)
	require.True(t, open[0].IsOwn)
	requireLeft(t, w, open[0].TimeLeft, begun)

	_, err = changeWait(t, s, w, expire) // it escalates: there are no hooks
	require.NoError(t, err)
	ended, created, err := s.StartWait(t.Context(), repeated)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, wait.TimedOut, ended.State, "a repeated request gets the end")
	require.True(t, startWait(t, s, newWait(c, "a")).State.IsOpen())
	_, _, err = s.StartWait(t.Context(), wait.Wait{ID: newID(), Claim: "none", Type: "x", TimeoutMS: 1})
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
}

// Of a signal and a deadline that coincide, one ends the wait.
func waitTransitions(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	for range 20 {
		w := startWait(t, s, newWait(c, ""))
		var g sync.WaitGroup
		var expired error
		var signalled *wait.Wait
		g.Go(func() { _, expired = changeWait(t, s, w, expire) })
		g.Go(func() { signalled, _ = sendSignal(t, s, c, "", "1") })
		g.Wait()
		got, _, err := s.Wait(t.Context(), w.ID)
		require.NoError(t, err)
		if signalled != nil {
			require.ErrorIs(t, expired, wait.ErrConflict)
			require.Equal(t, wait.Signalled, got.State)
		} else {
			require.NoError(t, expired)
			require.Equal(t, wait.TimedOut, got.State)
			taken := startWait(t, s, newWait(c, "")) // it takes the kept signal
			require.Equal(t, wait.Signalled, taken.State)
		}
		require.Zero(t, openWaits(t, s, c))
	}
	w := startWait(t, s, newWait(c, "", hooks.WaitTimeout))
	w, err := changeWait(t, s, w, expire)
	require.NoError(t, err)
	require.Equal(t, wait.TimingOut, w.State)
	extended, err := changeWait(t, s, w, func(w *wait.Wait, now time.Time) []activity.Event {
		return w.Decide(wait.Outcome{Decision: wait.Extend, By: time.Second}, now)
	})
	require.NoError(t, err)
	require.Equal(t, []any{wait.Waiting, 2}, []any{extended.State, extended.Round})
	w.State = wait.Waiting
	_, err = changeWait(t, s, w, expire) // of the first round
	require.ErrorIs(t, err, wait.ErrConflict)
	require.Equal(t, 1, openWaits(t, s, c))
}

// A signal goes to the wait of its name if that waits, else it is kept, in order.
func waitSignals(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	w := startWait(t, s, newWait(c, "a", hooks.WaitStart, hooks.WaitSignal))
	for n, data := range []string{"1", "2", "3"} {
		got, kept := sendSignal(t, s, c, "a", data)
		require.Nil(t, got, "its wait has not begun")
		require.Equal(t, n+1, kept)
	}
	_, kept := sendSignal(t, s, c, "b", "4")
	require.Equal(t, 1, kept)
	w, err := changeWait(t, s, w, func(w *wait.Wait, now time.Time) []activity.Event { return w.Begin(now) })
	require.NoError(t, err)
	require.Equal(t, []any{wait.Signalling, "1"}, []any{w.State, string(w.Data)})
	_, err = changeWait(t, s, w, func(w *wait.Wait, now time.Time) []activity.Event { return w.Resume(now) })
	require.NoError(t, err)
	for _, want := range []string{"2", "3"} {
		w := startWait(t, s, newWait(c, "a"))
		require.Equal(t, []any{wait.Signalled, want}, []any{w.State, string(w.Data)})
	}
	w = startWait(t, s, newWait(c, "a"))
	require.Equal(t, wait.Waiting, w.State)
	got, kept := sendSignal(t, s, c, "a", "5")
	require.Zero(t, kept)
	require.Equal(t, []any{w.ID, wait.Signalled, "5"}, []any{got.ID, got.State, string(got.Data)})
}

// Kept signals are in the order in which they were sent, whichever server made their
// ids.
func waitSignalOrder(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	ids := []string{newID(), newID(), newID()}
	for n := range ids {
		_, kept, err := s.SendSignal(t.Context(), wait.Signal{ID: ids[len(ids)-1-n], Claim: c.ID, Name: "a", Data: json.RawMessage(fmt.Sprint(n))})
		require.NoError(t, err)
		require.Equal(t, n+1, kept)
	}
	for n := range ids {
		require.Equal(t, fmt.Sprint(n), string(startWait(t, s, newWait(c, "a")).Data))
	}
}

// The limits of a claim hold whatever comes at once.
func waitLimitsAtOnce(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	var begun, named, kept atomic.Int64
	count := func(n *atomic.Int64, err error) error {
		if err == nil {
			n.Add(1)
		} else if !errors.Is(err, wait.ErrTooMany) {
			return err
		}
		return nil
	}
	send := func(name string) error {
		_, _, err := s.SendSignal(t.Context(), wait.Signal{ID: newID(), Claim: c.ID, Name: name, Data: []byte("1")})
		return err
	}
	var g errgroup.Group
	for n := range 3 * wait.MaxOpen {
		g.Go(func() error {
			_, _, err := s.StartWait(t.Context(), newWait(c, fmt.Sprint("w", n), hooks.WaitStart))
			return count(&begun, err)
		})
		g.Go(func() error { return count(&named, send("a")) })
	}
	for n := range wait.MaxKept + 20 {
		g.Go(func() error { return count(&kept, send(fmt.Sprint("s", n))) })
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, wait.MaxOpen, begun.Load())
	require.LessOrEqual(t, named.Load(), int64(wait.MaxKeptPerName))
	require.EqualValues(t, wait.MaxKept, named.Load()+kept.Load())
	c, err := s.Claim(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, []int{wait.MaxOpen, wait.MaxKept}, []int{c.Waits, c.KeptSignals})
}

// When a claim is not active any more, its open waits are canceled in the same
// transaction, and its signals are removed.
func waitsEndWithClaim(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	for _, name := range []string{"a", "b"} {
		startWait(t, s, newWait(c, name, hooks.WaitStart))
	}
	sendSignal(t, s, c, "c", "1")
	before := lastSeq(t, s)
	released := mustUpdateClaim(t, s, releasingTransition(c.ID))
	require.Equal(t, []int{0, 0}, []int{released.Waits, released.KeptSignals})
	var types []activity.Type
	for _, e := range events(t, s, activity.Filter{}, before) {
		types = append(types, e.Type)
	}
	require.Equal(t, []activity.Type{activity.ClaimReleasing, activity.WaitCancelled, activity.WaitCancelled}, types)
	all, err := s.Waits(t.Context(), wait.Filter{Claim: c.ID, States: []wait.State{wait.Cancelled}})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.NotNil(t, all[0].EndedAt)
	_, err = changeWait(t, s, wait.Wait{ID: all[0].ID, Claim: c.ID, State: wait.Starting, Round: 1}, expire)
	require.ErrorIs(t, err, wait.ErrConflict)
	_, _, err = s.StartWait(t.Context(), newWait(c, "d"))
	require.ErrorIs(t, err, claim.ErrNotActive)
	_, _, err = s.SendSignal(t.Context(), wait.Signal{ID: newID(), Claim: c.ID, Data: []byte("1")})
	require.ErrorIs(t, err, claim.ErrNotActive)
	open, err := s.OpenWaits(t.Context())
	require.NoError(t, err)
	require.Empty(t, open)
}

// A claim has a limit of open waits, of signals of a name, and of signals.
func waitLimits(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	for n := range wait.MaxKeptPerName {
		_, kept := sendSignal(t, s, c, "full", "1")
		require.Equal(t, n+1, kept)
	}
	signal := func(name string) error {
		_, _, err := s.SendSignal(t.Context(), wait.Signal{ID: newID(), Claim: c.ID, Name: name, Data: []byte("1")})
		return err
	}
	require.ErrorIs(t, signal("full"), wait.ErrTooMany)
	for n := range wait.MaxKept - wait.MaxKeptPerName {
		require.NoError(t, signal(fmt.Sprint("n", n)))
	}
	require.ErrorIs(t, signal("another"), wait.ErrTooMany)
	for n := range wait.MaxOpen {
		startWait(t, s, newWait(c, fmt.Sprint("w", n)))
	}
	_, _, err := s.StartWait(t.Context(), newWait(c, "more"))
	require.ErrorIs(t, err, wait.ErrTooMany)
	for range wait.MaxKeptPerName { // each takes a signal at once
		_, _, err = s.StartWait(t.Context(), newWait(c, "full"))
		require.ErrorIs(t, err, wait.ErrTooMany)
	}
	other := claimWithContainer(t, s, "bob")
	for range wait.MaxPerMinute {
		w := startWait(t, s, newWait(other, ""))
		_, err := changeWait(t, s, w, expire)
		require.NoError(t, err)
	}
	_, _, err = s.StartWait(t.Context(), newWait(other, ""))
	require.ErrorIs(t, err, wait.ErrTooMany)
}

// A hook of a wait starts only while its claim is active and its container is
// claimed, and marks the container for the flows that follow.
func waitRuns(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	start := func(kind hooks.Kind) error {
		return s.RunStarted(t.Context(), hooks.Run{
			ID: newID(), Attempt: 1, Point: hooks.WaitStart, Wait: "w.1", Hook: "h", Kind: kind, Workload: web, Container: c.Container, Claim: c.ID, StartedAt: time.Now(),
		})
	}
	require.NoError(t, start(hooks.KindHTTP))
	k, err := s.Container(t.Context(), c.Container)
	require.NoError(t, err)
	require.False(t, k.EventCommands)
	require.NoError(t, start(hooks.KindCommand))
	k, err = s.Container(t.Context(), c.Container)
	require.NoError(t, err)
	require.True(t, k.EventCommands)
	runs, err := s.Runs(t.Context(), hooks.RunFilter{Claim: c.ID, Wait: "w.1"})
	require.NoError(t, err)
	require.Len(t, runs, 2)
	runs, err = s.Runs(t.Context(), hooks.RunFilter{Claim: c.ID, Wait: "w.2"})
	require.NoError(t, err)
	require.Empty(t, runs)
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	require.ErrorIs(t, start(hooks.KindCommand), pool.ErrConflict)
	require.ErrorIs(t, start(hooks.KindHTTP), pool.ErrConflict)
}

// Every field of a wait is read as it was written.
func waitRoundTrip(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	w := newWait(c, "a", hooks.WaitStart, hooks.WaitTimeout)
	w.Request, w.OnTimeout, w.Context = "r", wait.Retry, json.RawMessage(`{"task":"<\u0000>"}`)
	w = startWait(t, s, w)
	for _, apply := range []func(*wait.Wait, time.Time) []activity.Event{
		func(w *wait.Wait, now time.Time) []activity.Event { return w.Begin(now) },
		expire,
		func(w *wait.Wait, now time.Time) []activity.Event {
			return w.Decide(wait.Outcome{Decision: wait.Extend, Reason: "because \x00"}, now)
		},
	} {
		var err error
		w, err = changeWait(t, s, w, apply)
		require.NoError(t, err)
	}
	w.Reason = "because "
	got, _, err := s.Wait(t.Context(), w.ID)
	require.NoError(t, err)
	require.Equal(t, w, got)
	require.NotNil(t, got.FiredAt)
	for _, f := range []wait.Filter{
		{}, {Workload: web}, {Claim: c.ID}, {Tenant: "ada"}, {States: []wait.State{wait.Waiting}}, {States: []wait.State{wait.Waiting, wait.Cancelled}}, {Limit: 1},
		{IDPart: w.ID[len(w.ID)-4:]}, {Newest: true},
	} {
		all, err := s.Waits(t.Context(), f)
		require.NoError(t, err)
		require.Equal(t, []wait.Wait{w}, all, "%+v", f)
	}
	without := w
	without.Context = nil
	all, err := s.Waits(t.Context(), wait.Filter{NoContent: true})
	require.NoError(t, err)
	require.Equal(t, []wait.Wait{without}, all)
	for _, f := range []wait.Filter{{Workload: "x"}, {Claim: "x"}, {Tenant: "x"}, {States: []wait.State{wait.Aborted}}, {After: w.ID}, {IDPart: "none"}, {Newest: true, After: w.ID}} {
		all, err := s.Waits(t.Context(), f)
		require.NoError(t, err)
		require.Empty(t, all, "%+v", f)
	}
	_, _, err = s.Wait(t.Context(), "none")
	require.ErrorIs(t, err, wait.ErrNotFound)
}

// Waits are removed after their claim has ended.
func pruneWaits(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	w := startWait(t, s, newWait(c, "a"))
	_, err := changeWait(t, s, w, expire)
	require.NoError(t, err)
	startWait(t, s, newWait(c, "b"))
	later := store.Retention{Before: time.Now().Add(time.Hour)}
	p, err := s.Prune(t.Context(), later)
	require.NoError(t, err)
	require.Zero(t, p.Waits)
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	p, err = s.Prune(t.Context(), later)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.Waits)
}
