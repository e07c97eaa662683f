package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
)

// Every event has the actor of its change. The end of a command has that of its
// start, also when the change is of another one.
func actorsOfEvents(t *testing.T, s Store) {
	key := activity.Actor{Name: "key:ann", Address: "192.0.2.1", Request: "r-1"}
	ctx := activity.WithActor(t.Context(), key)
	first := lastSeq(t, s)
	require.NoError(t, s.Append(ctx, activity.Event{Type: activity.PoolWarning, Message: "m"},
		activity.Event{Type: activity.PoolWarning, Message: "m"}.CausedBy(activity.Actor{Name: "claim:c"})))
	require.NoError(t, s.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: "m"}))
	require.NoError(t, s.Append(activity.WithActor(t.Context(), activity.Actor{Name: "cert:a\x00b"}), activity.Event{Type: activity.PoolWarning}))
	got := events(t, s, activity.Filter{}, first)
	require.Len(t, got, 4)
	var actors []activity.Actor
	for _, e := range got {
		actors = append(actors, activity.Actor{Name: e.Actor, Address: e.Address, Request: e.Request})
	}
	require.Equal(t, []activity.Actor{key, {Name: "claim:c"}, {Name: activity.System}, {Name: "cert:ab"}}, actors)

	c := addTenantClaim(t, s, "ann")
	_, err := s.StartCommand(ctx, newOpen(c, "one"), 0)
	require.NoError(t, err)
	started := events(t, s, execs, first)[0]
	require.Equal(t, key, activity.Actor{Name: started.Actor, Address: started.Address, Request: started.Request})
	recorded, err := s.RecordUses(t.Context(), []access.Use{endOfCommand(c, "one", 0)})
	require.NoError(t, err)
	require.Equal(t, "key:ann", recorded[0].Actor)
	require.Equal(t, "key:ann", events(t, s, execs, first)[1].Actor)
}
