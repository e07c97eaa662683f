package publish

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
)

// atOnce is a store of which everything was read before the first request: it is
// repeated before its change is made.
type atOnce struct{ staleStore }

func (atOnce) PublishedEarlier(context.Context, string, string, activity.Event) (*activity.Event, error) {
	return nil, nil
}

// repeating returns the stores that a repeated request may meet.
func repeating(m *memory) map[string]Store {
	return map[string]Store{"later": m, "at once": atOnce{staleStore{m, m.claims["ann-1"]}}}
}

// An event counts once, also if its request is repeated, at once or later.
func TestRepeatedEventCountsOnce(t *testing.T) {
	for _, name := range []string{"later", "at once"} {
		m := newMemory("ann-1")
		testRepeatedEvent(t, m, repeating(m)[name])
	}
}

func testRepeatedEvent(t *testing.T, m *memory, store Store) {
	s := m.service(nil)
	s.store = store
	counted := 0
	s.o.OnEvent = func(dropped bool) {
		require.False(t, dropped)
		counted++
	}
	var first Response
	for i := range 3 {
		r, err := s.Publish(t.Context(), "ann-1", Request{Type: "x", Origin: Origin{ID: "r1"}})
		require.NoError(t, err)
		if i == 0 {
			first = r
		}
		require.Equal(t, first, r)
	}
	require.Equal(t, 1, counted)
	_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x", Origin: Origin{ID: "r2"}})
	require.NoError(t, err)
	require.Equal(t, 2, counted)
	require.Len(t, m.events, 2)
}

// A report of an activity that is repeated changes nothing, and has the answer of the
// first one: whatever was reported since, whichever server gets it, and also when the
// claim may report no more.
func TestRepeatedActivity(t *testing.T) {
	for _, name := range []string{"later", "at once"} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testRepeatedActivity(t, name) }) })
	}
}

func testRepeatedActivity(t *testing.T, name string) {
	m := newMemory("ann-1")
	again := repeating(m)[name]
	report := func(store Store, r ActivityRequest) (ActivityResponse, error) {
		<-time.After(2 * touchInterval)
		s := m.service(nil) // another server
		s.store = store
		return s.SetActivity(t.Context(), "ann-1", r)
	}
	executes := ActivityRequest{Activity: "executing", Tool: "grep", Task: "t", Origin: Origin{ID: "r1"}}
	waits := ActivityRequest{Activity: "waiting_for_input", Origin: Origin{ID: "r2"}}
	first, err := report(m, executes)
	require.NoError(t, err)
	require.Equal(t, ActivityResponse{Activity: "executing", Tool: "grep", Since: m.events[0].Time, Changed: true}, first)
	repeated, err := report(again, executes)
	require.NoError(t, err)
	require.Equal(t, first, repeated, "nothing else was reported")

	second, err := report(m, waits)
	require.NoError(t, err)
	require.True(t, second.Changed)
	before := m.claims["ann-1"]
	for r, want := range map[*ActivityRequest]ActivityResponse{&executes: first, &waits: second} {
		repeated, err := report(again, *r)
		require.NoError(t, err)
		require.Equal(t, want, repeated)
	}
	require.Equal(t, before, m.claims["ann-1"])
	require.Len(t, m.events, 2)

	executes.Tool = "sed"
	_, err = report(again, executes)
	require.ErrorIs(t, err, ErrOtherRequest)
}

// A request that is repeated gets its answer also where a new one would be refused
// because of the limits, and is not counted as dropped.
func TestRepeatedRequestIsNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory("ann-1")
		s := m.service(nil)
		event := Request{Type: "x", Origin: Origin{ID: "e"}}
		thinks := ActivityRequest{Activity: "thinking", Origin: Origin{ID: "a"}}
		published, err := s.Publish(t.Context(), "ann-1", event)
		require.NoError(t, err)
		reported, err := s.SetActivity(t.Context(), "ann-1", thinks)
		require.NoError(t, err)
		for err == nil {
			_, err = s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: []string{"idle", "blocked"}[len(m.events)%2]})
		}
		require.True(t, isLimit(err), "%v", err)
		for range 5 {
			again, err := s.Publish(t.Context(), "ann-1", event)
			require.NoError(t, err)
			require.Equal(t, published, again)
			repeated, err := s.SetActivity(t.Context(), "ann-1", thinks)
			require.NoError(t, err)
			require.Equal(t, reported, repeated)
		}
		require.EqualValues(t, 1, s.gate.claims["ann-1"].pending)
	})
}

// A request is the same as an earlier one if it is for the same event, whatever the
// activity was before.
func TestIsRepeated(t *testing.T) {
	became := func(d activity.AgentActivityChangedData) activity.Event {
		return activity.Event{Type: activity.AgentActivityChanged, Data: activity.Data(d)}
	}
	thinks := became(activity.AgentActivityChangedData{Activity: "thinking", Task: "t"})
	require.True(t, IsRepeated(thinks, became(activity.AgentActivityChangedData{Activity: "thinking", Task: "t", PreviousActivity: "idle"})))
	require.False(t, IsRepeated(thinks, became(activity.AgentActivityChangedData{Activity: "idle", Task: "t"})))
	require.False(t, IsRepeated(thinks, became(activity.AgentActivityChangedData{Activity: "thinking"})))
	x := activity.Event{Type: "custom.x", Data: []byte("1")}
	require.True(t, IsRepeated(x, activity.Event{Type: "custom.x", Data: []byte("1"), Priority: new(activity.DefaultPriority)}))
	for _, other := range []activity.Event{thinks, {Type: "custom.y", Data: []byte("1")}, {Type: "custom.x"}, {Type: "custom.x", Data: []byte("1"), Priority: new(1)}} {
		require.False(t, IsRepeated(x, other), "%+v", other)
	}
}

// A report that is repeated after the end of its claim has its answer, as an event
// has.
func TestRepeatedActivityAfterRelease(t *testing.T) {
	m := newMemory("ann-1")
	s := m.service(nil)
	done := ActivityRequest{Activity: "completed", Origin: Origin{ID: "a"}}
	reported, err := s.SetActivity(t.Context(), "ann-1", done)
	require.NoError(t, err)
	m.mu.Lock()
	c := m.claims["ann-1"]
	c.State = claim.Released
	m.claims["ann-1"] = c
	m.mu.Unlock()
	repeated, err := s.SetActivity(t.Context(), "ann-1", done)
	require.NoError(t, err)
	require.Equal(t, reported, repeated)
	_, err = s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: "idle", Origin: Origin{ID: "b"}})
	require.ErrorIs(t, err, claim.ErrNotActive)
}
