package publish

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// recording is a store that recognises a repeated request.
type recording struct {
	*memory
	published map[string]*activity.Event // by the ID of their request
}

func (s *recording) Publish(ctx context.Context, p Publication) (Result, error) {
	if earlier := s.published[p.ID]; earlier != nil {
		return Result{Claim: s.claims[p.Claim], Event: earlier}, nil
	}
	r, err := s.memory.Publish(ctx, p)
	s.published[p.ID] = r.Event
	return r, err
}

// An event counts once, also if its request is repeated.
func TestRepeatedEventCountsOnce(t *testing.T) {
	m := newMemory("ann-1")
	s := m.service(nil)
	s.store = &recording{memory: m, published: map[string]*activity.Event{}}
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
