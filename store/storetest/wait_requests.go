package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/wait"
)

// newJoin returns a wait of a claim as a request with an ID makes it.
func newJoin(c claim.Claim, name, request string) wait.Wait {
	w := newWait(c, name)
	w.Request = request
	return w
}

// requireLeft checks the time that a wait has left, which was read since a time. The
// database may have another clock.
func requireLeft(t *testing.T, w wait.Wait, left time.Duration, since time.Time) {
	t.Helper()
	const clocks = 5 * time.Second
	require.GreaterOrEqual(t, left, time.Until(*w.Deadline)-clocks)
	require.LessOrEqual(t, left, w.Deadline.Sub(since)+clocks)
}

// joinWait has a request return an open or ended wait.
func joinWait(t *testing.T, s Store, w, want wait.Wait) wait.Wait {
	t.Helper()
	got, created, err := s.StartWait(t.Context(), w)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, want.ID, got.ID)
	return got
}

// A request that joined an open wait returns it also after its end, and after that of
// the claim. With its ID nothing else can be requested. One of another claim is
// another one, and one that failed has joined nothing.
func waitIsJoined(t *testing.T, s Store) {
	c, other := claimWithContainer(t, s, "ada"), claimWithContainer(t, s, "bob")
	w := startWait(t, s, newJoin(c, "a", "first"))
	second := newJoin(c, "a", "second")
	second.TimeoutMS, second.Context = 5000, []byte(`{"b":2}`)
	joinWait(t, s, second, w)
	failed := newJoin(c, "a", "failed")
	failed.Type = "other"
	_, _, err := s.StartWait(t.Context(), failed)
	require.ErrorIs(t, err, wait.ErrNameInUse)

	_, err = changeWait(t, s, w, expire)
	require.NoError(t, err)
	second.ID = newID()
	require.Equal(t, wait.TimedOut, joinWait(t, s, second, w).State)
	require.Zero(t, openWaits(t, s, c), "a repeated request has begun another wait")
	another := newJoin(c, "a", "second")
	_, _, err = s.StartWait(t.Context(), another)
	require.ErrorIs(t, err, wait.ErrOtherRequest, "it has another timeout and context")

	third := startWait(t, s, newJoin(c, "a", "third"))
	joinWait(t, s, second, w)
	joinWait(t, s, newJoin(c, "a", "fourth"), third)
	require.NotEqual(t, w.ID, startWait(t, s, newJoin(other, "a", "second")).ID)
	failed.Name = "b"
	startWait(t, s, failed)
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	require.Equal(t, wait.Cancelled, joinWait(t, s, newJoin(c, "a", "fourth"), third).State)
	_, _, err = s.StartWait(t.Context(), newJoin(c, "a", "fifth"))
	require.ErrorIs(t, err, claim.ErrNotActive)
}

// A request that is refused begins no wait and joins none, but one that did before
// returns its wait.
func waitIsRefused(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	refused := func(name, request string) wait.Wait {
		w := newJoin(c, name, request)
		w.Refused = wait.ErrInvalid
		return w
	}
	w := startWait(t, s, newJoin(c, "a", "first"))
	joinWait(t, s, newJoin(c, "a", "second"), w)
	for _, request := range []string{"first", "second"} {
		joinWait(t, s, refused("a", request), w)
		_, _, err := s.StartWait(t.Context(), refused("b", request))
		require.ErrorIs(t, err, wait.ErrOtherRequest)
	}
	for _, name := range []string{"a", "b"} {
		for _, request := range []string{"third", ""} {
			_, _, err := s.StartWait(t.Context(), refused(name, request))
			require.ErrorIs(t, err, wait.ErrInvalid)
		}
	}
	require.Equal(t, 1, openWaits(t, s, c))
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	require.Equal(t, wait.Cancelled, joinWait(t, s, refused("a", "second"), w).State)
}

// What joins a wait is limited, and counts as what begins one. A request that is
// repeated counts for nothing.
func waitJoinLimits(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	join := func(name string, n int) error {
		_, _, err := s.StartWait(t.Context(), newJoin(c, name, fmt.Sprint(name, n)))
		return err
	}
	for n := range wait.MaxJoined + 1 { // the first one begins it
		require.NoError(t, join("a", n))
	}
	require.ErrorIs(t, join("a", wait.MaxJoined+1), wait.ErrTooMany)
	for n := range wait.MaxPerMinute - wait.MaxJoined - 1 {
		require.NoError(t, join("b", n))
	}
	require.ErrorIs(t, join("b", wait.MaxJoined), wait.ErrTooMany)
	require.ErrorIs(t, join("c", 0), wait.ErrTooMany)
	require.NoError(t, join("a", wait.MaxJoined))
	require.NoError(t, join("b", 1))
	_, created, err := s.StartWait(t.Context(), newWait(c, "b"))
	require.NoError(t, err, "nothing is recorded of a request without an ID")
	require.False(t, created)
}

// The requests that joined a wait are removed with it.
func waitJoinsEnd(t *testing.T, s Store) {
	c := claimWithContainer(t, s, "ada")
	w := startWait(t, s, newJoin(c, "a", "first"))
	second := newJoin(c, "a", "second")
	joinWait(t, s, second, w)
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	joinWait(t, s, second, w)
	p, err := s.Prune(t.Context(), store.Retention{Before: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Waits)
	_, _, err = s.StartWait(t.Context(), second)
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
}

// JoinWaits sends each of several requests for one wait to every server of a database
// at once, while the wait ends, and its claim in every other round. Whatever a request
// was answered, it is answered again.
func JoinWaits(t *testing.T, servers ...Store) {
	t.Helper()
	const rounds, requests = 10, 6
	for round := range rounds {
		c := claimWithContainer(t, servers[0], fmt.Sprint("tenant", round))
		first := startWait(t, servers[0], newJoin(c, "a", "first"))
		var mu sync.Mutex // guards waits
		waits := map[string]string{"first": first.ID}
		var g errgroup.Group
		for n := range requests {
			for _, s := range append(servers, servers...) {
				g.Go(func() error {
					request := fmt.Sprint("r", n)
					w, _, err := s.StartWait(t.Context(), newJoin(c, "a", request))
					if errors.Is(err, claim.ErrNotActive) {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if known := waits[request]; err == nil && known != "" && known != w.ID {
						err = fmt.Errorf("request %s has the waits %s and %s", request, known, w.ID)
					}
					waits[request] = w.ID
					return err
				})
			}
		}
		last := servers[len(servers)-1]
		g.Go(func() error {
			_, err := last.UpdateWait(t.Context(), wait.Transition{Key: first.Key(), From: wait.Waiting, Round: 1, Apply: expire})
			if errors.Is(err, wait.ErrConflict) {
				err = nil // its claim has ended
			}
			return err
		})
		if round%2 == 1 {
			g.Go(func() error {
				_, err := last.UpdateClaim(t.Context(), releasingTransition(c.ID))
				return err
			})
		}
		require.NoError(t, g.Wait())
		for request, id := range waits {
			for _, s := range servers {
				joinWait(t, s, newJoin(c, "a", request), wait.Wait{ID: id})
			}
		}
	}
}
