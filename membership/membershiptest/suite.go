package membershiptest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/membership"
)

// TestStore tests a Store. Each call of newDatabase returns an empty database:
// open returns a connection of one more server, and shift sets by how much the
// database's clock is shifted.
func TestStore(t *testing.T, newDatabase func(t *testing.T) (open func() membership.Store, shift func(by time.Duration))) {
	for name, test := range map[string]func(*suite){
		"unregistered": (*suite).unregistered,
		"expiry":       (*suite).expiry,
		"fence":        (*suite).fence,
		"lead":         (*suite).lead,
		"renewal":      (*suite).renewal,
		"replaced":     (*suite).replaced,
		"deregister":   (*suite).deregister,
	} {
		t.Run(name, func(t *testing.T) {
			s := &suite{T: t}
			s.open, s.setShift = newDatabase(t)
			test(s)
		})
	}
}

type suite struct {
	*testing.T
	open     func() membership.Store
	setShift func(time.Duration)
	shifted  time.Duration // of the database's clock
}

func (s *suite) shift(by time.Duration) {
	s.setShift(by)
	s.shifted = by
}

// join returns the connection of a server that has registered.
func (s *suite) join() (membership.Store, string) {
	db := s.open()
	r, err := db.Register(s.Context(), "host")
	require.NoError(s, err)
	require.False(s, r.HasLeft())
	require.Equal(s, membership.LeaseTime, r.ExpiresAt.Sub(r.StartedAt))
	return db, r.ID
}

func (s *suite) renew(db membership.Store, leads bool) time.Time {
	s.Helper()
	if !leads {
		_, err := db.Renew(s.Context(), true)
		require.ErrorIs(s, err, membership.ErrReplaced)
	}
	at, err := db.Renew(s.Context(), leads)
	require.NoError(s, err)
	return at
}

func (s *suite) campaign(db membership.Store, judge bool, want int64) {
	s.Helper()
	asOf := time.Time{}
	if judge {
		asOf = s.now()
	}
	term, err := db.Campaign(s.Context(), asOf)
	require.NoError(s, err)
	require.Equal(s, want, term)
}

// now returns the time by the database's clock.
func (s *suite) now() time.Time { return time.Now().Add(s.shifted) }

// fenceNow fences a server that has expired by now.
func (s *suite) fenceNow(db membership.Store, id string) (membership.Replica, error) {
	return db.Fence(s.Context(), id, s.now())
}

// requireExpired checks which servers are listed as expired.
func (s *suite) requireExpired(db membership.Store, ids ...string) {
	s.Helper()
	list, err := db.Expired(s.Context())
	require.NoError(s, err)
	var got []string
	for _, r := range list {
		got = append(got, r.ID)
	}
	require.ElementsMatch(s, ids, got)
}

// slack is how long the calls of a case may take: long enough for a busy machine, and
// twice as long is less than window.
const slack = 8 * time.Second

// window is from a renewal until another server may fence.
const window = membership.LeaseTime + membership.TakeoverMargin

// A server that has not registered has no lease and changes nothing.
func (s *suite) unregistered() {
	db := s.open()
	_, err := db.Renew(s.Context(), false)
	require.Error(s, err)
	_, err = db.Campaign(s.Context(), time.Now())
	require.Error(s, err)
	_, err = db.Expired(s.Context())
	require.Error(s, err)
}

// A lease expires LeaseTime and TakeoverMargin after its renewal, by the
// database's clock, and a renewal after that renews it.
func (s *suite) expiry() {
	a, idA := s.join()
	b, _ := s.join()
	s.requireExpired(b)
	_, err := s.fenceNow(b, idA)
	require.ErrorIs(s, err, membership.ErrNotExpired)
	s.shift(window - slack)
	s.requireExpired(b)
	first := s.renew(b, false)
	s.shift(window + slack)
	s.requireExpired(b, idA)
	again := s.renew(a, false)
	require.InDelta(s, 2*slack, again.Sub(first), float64(slack))
	s.requireExpired(b)
	_, err = s.fenceNow(b, idA)
	require.ErrorIs(s, err, membership.ErrNotExpired)
}

// A fenced server changes nothing. One server takes over, and after its lease on
// that another one.
func (s *suite) fence() {
	ctx := s.Context()
	a, idA := s.join()
	b, _ := s.join()
	c, _ := s.join()
	_, err := s.fenceNow(b, "unknown")
	require.ErrorIs(s, err, membership.ErrReplicaNotFound)
	s.campaign(a, false, 1)
	s.shift(window + slack)
	s.renew(b, false)
	s.renew(c, false)
	for _, asOf := range []time.Time{{}, s.now().Add(-3 * slack)} {
		_, err = b.Fence(ctx, idA, asOf)
		require.ErrorIs(s, err, membership.ErrNotExpired, "as of an earlier time")
	}
	fenced, err := b.Fence(ctx, idA, s.now().Add(time.Hour))
	require.NoError(s, err)
	require.EqualValues(s, 2, fenced.Epoch)
	require.Equal(s, idA, fenced.ID)
	_, err = s.fenceNow(b, idA)
	require.ErrorIs(s, err, membership.ErrNotExpired)
	s.requireExpired(b)

	_, err = a.Renew(ctx, false)
	require.ErrorIs(s, err, membership.ErrFenced)
	_, err = a.Campaign(ctx, time.Now())
	require.ErrorIs(s, err, membership.ErrFenced)
	require.ErrorIs(s, a.Resign(ctx), membership.ErrFenced)
	_, err = s.fenceNow(a, fenced.ID)
	require.ErrorIs(s, err, membership.ErrFenced)
	require.ErrorIs(s, a.RemoveReplica(ctx, fenced), membership.ErrFenced)
	require.NoError(s, a.Deregister(ctx))

	s.shift(2 * (window + slack))
	s.renew(c, false)
	again, err := s.fenceNow(c, idA)
	require.NoError(s, err)
	require.ErrorIs(s, b.RemoveReplica(ctx, fenced), membership.ErrReplicaNotFound)
	require.NoError(s, c.RemoveReplica(ctx, again))
	require.ErrorIs(s, c.RemoveReplica(ctx, again), membership.ErrReplicaNotFound)
	_, err = a.Renew(ctx, false)
	require.ErrorIs(s, err, membership.ErrFenced)
}

// One server leads. Another one leads at once when it has resigned, and when its
// leadership has expired only if the caller judges so.
func (s *suite) lead() {
	a, _ := s.join()
	b, _ := s.join()
	require.NoError(s, b.Resign(s.Context()))
	s.campaign(a, false, 1)
	s.campaign(a, true, 1)
	s.campaign(b, true, 0)
	require.NoError(s, b.Resign(s.Context()))
	s.campaign(b, true, 0)
	require.NoError(s, a.Resign(s.Context()))
	s.campaign(b, false, 2)
	s.campaign(a, true, 0)
	s.shift(window - slack)
	s.campaign(a, true, 0)
	s.shift(window + slack)
	s.campaign(a, false, 0)
	term, err := a.Campaign(s.Context(), time.Now().Add(window-slack))
	require.NoError(s, err)
	require.Zero(s, term, "as of an earlier time")
	s.campaign(a, true, 3)
	_, err = b.Campaign(s.Context(), s.now())
	require.ErrorIs(s, err, membership.ErrFenced, "it was replaced")
}

// A renewal extends the leadership with the lease. It does not extend one that
// was resigned or lost.
func (s *suite) renewal() {
	a, idA := s.join()
	b, idB := s.join()
	c, _ := s.join()
	s.campaign(a, false, 1)
	s.shift(window - slack)
	s.renew(b, false)
	s.renew(a, true)
	s.shift(window + slack)
	s.campaign(b, true, 0)
	require.NoError(s, a.Resign(s.Context()))
	s.renew(a, false)
	s.campaign(b, false, 2)
	s.renew(a, false)

	s.campaign(a, true, 0)
	s.shift(2*window + 2*slack)
	s.renew(c, false)
	s.requireExpired(c, idA, idB)
	s.campaign(a, true, 3)
	s.requireExpired(c, idA, idB)
	s.renew(a, true)
	s.requireExpired(c, idB)
}

// Who becomes leader because a leadership expired fences the former leader, so
// that it changes nothing, and takes over from it at once. It does not fence one
// that resigned.
func (s *suite) replaced() {
	ctx := s.Context()
	a, idA := s.join()
	b, idB := s.join()
	c, _ := s.join()
	s.campaign(a, false, 1)
	s.shift(window + slack)
	s.renew(b, false)
	s.renew(c, false)
	s.campaign(b, true, 2)
	for _, leads := range []bool{true, false} {
		_, err := a.Renew(ctx, leads)
		require.ErrorIs(s, err, membership.ErrFenced)
	}
	s.requireExpired(b, idA)
	_, err := b.Fence(ctx, idA, time.Time{})
	require.NoError(s, err, "it counts as one that left")
	_, err = b.Fence(ctx, idA, s.now())
	require.ErrorIs(s, err, membership.ErrNotExpired)

	require.NoError(s, b.Resign(ctx))
	s.campaign(c, true, 3)
	_, err = c.Fence(ctx, idB, s.now())
	require.ErrorIs(s, err, membership.ErrNotExpired)
	s.renew(b, false)
	s.campaign(b, true, 0)
}

// A server that leaves without work has no row afterwards, and does not lead.
func (s *suite) deregister() {
	a, idA := s.join()
	b, _ := s.join()
	s.campaign(a, false, 1)
	require.NoError(s, a.Deregister(s.Context()))
	s.campaign(b, false, 2)
	s.shift(2 * window)
	s.requireExpired(b)
	_, err := s.fenceNow(b, idA)
	require.ErrorIs(s, err, membership.ErrReplicaNotFound)
	_, err = a.Renew(s.Context(), false)
	require.ErrorIs(s, err, membership.ErrFenced)
}
