package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
)

// An event has what was sent, a mark, and nothing that the sender chose of what
// Hostler decides.
func TestPublish(t *testing.T) {
	m := newMemory("ann-1")
	s := m.service(nil)
	r, err := s.Publish(t.Context(), "ann-1", Request{Type: "deploy.done", Data: json.RawMessage(" {\n\"a\" : [1, \"\\u0041\"] } "), Priority: new(0)})
	require.NoError(t, err)
	require.Equal(t, Response{Type: "custom.deploy.done", Priority: 0, Time: r.Time, Untrusted: true}, r)
	_, err = s.Publish(t.Context(), "ann-1", Request{Type: "agent.x"})
	require.NoError(t, err)
	require.Equal(t, activity.Event{
		Type: "custom.deploy.done", Time: r.Time, Message: "published by the tenant's program", Data: json.RawMessage(`{"a":[1,"\u0041"]}`), Untrusted: true, Priority: new(0),
	}, m.events[0])
	require.Equal(t, activity.DefaultPriority, *m.events[1].Priority)
	require.Empty(t, m.events[1].Data)
	for _, bad := range []Request{{Type: "claim.released"}, {Type: "x", Priority: new(10)}, {Type: "x", Priority: new(-1)}, {Type: "x", Data: json.RawMessage("{")}} {
		_, err = s.Publish(t.Context(), "ann-1", bad)
		require.True(t, errors.Is(err, ErrInvalid) || errors.Is(err, activity.ErrType), "%+v: %v", bad, err)
	}
	_, err = s.Publish(t.Context(), "none", Request{Type: "x"})
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
	require.Len(t, m.events, 2)
}

// The states in which a claim can publish depend on who asks.
func TestPublishingStates(t *testing.T) {
	for _, state := range claim.States() {
		for origin, want := range map[Origin]bool{
			{}:               state == claim.Active || state == claim.Releasing,
			{FromHook: true}: state == claim.Active || state == claim.Releasing || state == claim.Pending,
		} {
			m := newMemory("ann-1")
			c := m.claims["ann-1"]
			c.State = state
			m.claims["ann-1"] = c
			_, err := m.service(nil).Publish(t.Context(), "ann-1", Request{Type: "x", Origin: origin})
			_, activityErr := m.service(nil).SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: "idle", Origin: origin})
			if want {
				require.NoError(t, errors.Join(err, activityErr), "%s %v", state, origin)
				continue
			}
			require.ErrorIs(t, err, claim.ErrNotActive, "%s %v", state, origin)
			require.ErrorIs(t, activityErr, claim.ErrNotActive, "%s %v", state, origin)
		}
	}
}

// Data is stored so that no reader can understand it differently, and nothing in
// it reaches a terminal or a line of a log.
func TestData(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	for in, want := range map[string]string{
		``:                         ``,
		` `:                        ``,
		`null`:                     `null`,
		` [ 1 , {"a": {"a": 1}} ]`: `[1,{"a":{"a":1}}]`,
		"\"\u009b31m\u202e\u2028\u200d\x7f\U000e0041é😀\"": `"\u009b31m\u202e\u2028\u200d\u007f\udb40\udc41é😀"`,
		`"\u001b[2J"`:   `"\u001b[2J"`,
		`1e999`:         `1e999`,
		deep(32):        deep(32),
		`{"a":1,"A":2}`: `{"a":1,"A":2}`,
		`"` + strings.Repeat("a", MaxData-2) + `"`: `"` + strings.Repeat("a", MaxData-2) + `"`,
	} {
		got, err := normalized([]byte(in))
		require.NoError(t, err, "%.40q", in)
		require.Equal(t, want, string(got), "%.40q", in)
		require.True(t, want == "" || json.Valid(got))
	}
	for _, in := range []string{
		`{`, `{}{}`, `{} x`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[{"b":[{"x":1,"x":1}]}]`, deep(33), deep(16000), strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33),
		"\"\xff\"", "\"\xed\xa0\x80\"", "\"\x1b\"", "\"\n\"", "\x00", `"` + strings.Repeat("a", MaxData-1) + `"`, strings.Repeat(" ", MaxData) + "1", `undefined`, `'x'`,
	} {
		_, err := normalized([]byte(in))
		require.ErrorIs(t, err, ErrInvalid, "%.40q", in)
		require.Less(t, len(err.Error()), 500)
		require.NotContains(t, err.Error(), "\x1b")
	}
}

// However many servers get its requests, a claim and a tenant publish a burst of
// 50 events, then 5 a second, and the answer has the number that was dropped.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
			m := newMemory("ann-1", "ann-2", "bob-1")
			m.ahead = ahead
			servers := []*Service{m.service(nil), m.service(nil), m.service(nil)}
			published := map[string]int{}
			for i := range 60 * 20 { // for a minute, 40 a second and more
				for _, id := range []string{"ann-1", "ann-2"} {
					_, err := servers[i%3].Publish(t.Context(), id, Request{Type: "x"})
					if err == nil {
						published[id]++
						continue
					}
					limit, ok := errors.AsType[*LimitError](err)
					require.True(t, ok, "%v", err)
					require.Positive(t, limit.Dropped)
					require.Positive(t, limit.RetryAfter)
					require.LessOrEqual(t, limit.RetryAfter, time.Second)
				}
				<-time.After(50 * time.Millisecond)
			}
			total := published["ann-1"] + published["ann-2"]
			require.InDelta(t, 50+60*5, total, 2, "%s", ahead)
			require.Less(t, m.transactions, total+3*60*10, "what is known to be refused costs no transaction")
			_, err := servers[0].Publish(t.Context(), "bob-1", Request{Type: "x"})
			require.NoError(t, err, "another tenant")
			<-time.After(10 * time.Second)
			for range 50 {
				_, err := servers[0].Publish(t.Context(), "ann-2", Request{Type: "x"})
				require.NoError(t, err, "the burst is there again")
			}
		}
	})
}

// The bytes of events are limited like their number.
func TestByteLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory("ann-1")
		s := m.service(nil)
		data := json.RawMessage(`"` + strings.Repeat("a", MaxData-2) + `"`)
		published := 0
		for range 600 {
			if _, err := s.Publish(t.Context(), "ann-1", Request{Type: "x", Data: data}); err == nil {
				published++
			}
			<-time.After(100 * time.Millisecond)
		}
		require.InDelta(t, 10+60, published, 2)
		_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x", Data: data})
		limit, ok := errors.AsType[*LimitError](err)
		require.True(t, ok)
		require.EqualValues(t, 601-published, limit.Dropped)
		<-time.After(limit.RetryAfter)
		_, err = s.Publish(t.Context(), "ann-1", Request{Type: "x", Data: data})
		require.NoError(t, err, "the time to wait is enough")
		require.EqualValues(t, 601-published, m.allowances["ann-1"].Dropped, "what was dropped is recorded with the next event")
	})
}

// A clock that is set back blocks no claim, and one that is set forward gives no
// more than a burst.
func TestClock(t *testing.T) {
	start := time.Unix(1e9, 0)
	var a Allowance
	for range 50 {
		require.Zero(t, a.Take(start, 0))
	}
	require.Equal(t, 200*time.Millisecond, a.Take(start, 0))
	for _, now := range []time.Time{start.Add(-24 * time.Hour), start.Add(24 * time.Hour)} {
		n := 0
		for a.Take(now, 0) == 0 {
			n++
		}
		require.Equal(t, 50, n)
	}
}

// A flood is logged once, without a word of the tenant's, and its memory ends with
// the claim.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var ids []string
		for i := range 2000 {
			ids = append(ids, fmt.Sprintf("t%d-1", i))
		}
		m := newMemory(ids...)
		s := m.service(&log)
		dropped := 0
		s.o.OnEvent = func(isDropped bool) {
			if isDropped {
				dropped++
			}
		}
		for range 100 {
			_, _ = s.Publish(t.Context(), ids[0], Request{Type: "x", Data: json.RawMessage(`"SECRET"`)})
		}
		require.Equal(t, 50, dropped)
		require.Equal(t, 50, m.transactions)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.NotContains(t, log.String(), "SECRET")
		s.EventHandlers().On[activity.ClaimReleased](activity.Event{Claim: ids[0], Tenant: "t0"})
		require.Contains(t, log.String(), "events=50")
		require.NotContains(t, s.gate.claims, ids[0])

		for _, id := range ids {
			_, err := s.Publish(t.Context(), id, Request{Type: "x"})
			require.True(t, err == nil || id == ids[0])
			<-time.After(time.Second)
		}
		require.Less(t, len(s.gate.claims)+len(s.gate.tenants), minSweep+10)
		_, err := s.Publish(t.Context(), "unknown", Request{Type: "x"})
		require.Error(t, err)
		require.NotContains(t, s.gate.claims, "unknown")
	})
}

// A server makes few changes at once, and no more of a claim wait than its burst.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for i := range 10 {
			ids = append(ids, fmt.Sprintf("t%d-1", i))
		}
		m := newMemory(ids...)
		s := m.service(nil)
		m.hold = make(chan struct{}) // the database does not answer
		var g errgroup.Group
		var refused atomic.Int64
		for _, id := range ids {
			for range 80 {
				g.Go(func() error {
					_, err := s.Publish(t.Context(), id, Request{Type: "x"})
					if isLimit(err) {
						refused.Add(1)
						return nil
					}
					return err
				})
			}
		}
		synctest.Wait()
		require.EqualValues(t, 10*30, refused.Load())
		require.Len(t, s.slots, 4)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Publish(ctx, "t0-2", Request{Type: "x"})
		require.ErrorIs(t, err, context.Canceled, "a caller that waits can leave")
		close(m.hold)
		require.NoError(t, g.Wait())
		require.Len(t, m.events, 10*50)
		require.Empty(t, s.slots)
		for id, c := range s.gate.claims {
			require.Zero(t, c.waiting, id)
		}
	})
}

// staleStore returns records of claims from before their last change.
type staleStore struct {
	*memory
	stale claim.Claim
}

func (s staleStore) Claim(context.Context, string) (claim.Claim, error) { return s.stale, nil }

// What was dropped is not lost with a report that turns out to change nothing.
func TestDroppedSurvivesRepeatedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory("ann-1")
		s := m.service(nil)
		stale := m.claims["ann-1"]
		_, err := s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: "idle"})
		require.NoError(t, err)
		for range 52 {
			_, _ = s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		}
		<-time.After(time.Second)
		s.store = staleStore{m, stale}
		r, err := s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: "idle"})
		require.NoError(t, err)
		require.False(t, r.Changed)
		s.store = m
		_, err = s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		require.NoError(t, err)
		require.EqualValues(t, 3, m.allowances["ann-1"].Dropped)
	})
}

// What was dropped is not lost with a publication that fails.
func TestDroppedSurvivesFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory("ann-1")
		s := m.service(nil)
		for range 53 {
			_, _ = s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		}
		<-time.After(time.Second)
		m.err = errors.New("unavailable")
		_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		require.ErrorIs(t, err, m.err)
		m.err = nil
		_, err = s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		require.NoError(t, err)
		require.EqualValues(t, 3, m.allowances["ann-1"].Dropped)
	})
}
