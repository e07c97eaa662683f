package claim

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/transition"
)

// The table has every state, and a claim is live while a transition leads out
// of its state.
func TestTransitionsHaveEveryState(t *testing.T) {
	for _, s := range States() {
		leadsTo, leadsFrom := false, false
		for _, row := range transitions {
			leadsTo = leadsTo || row.To == s
			leadsFrom = leadsFrom || row.From == s
		}
		require.True(t, leadsTo, s)
		require.Equal(t, s.IsLive(), leadsFrom, s)
	}
	for _, row := range transitions {
		require.Contains(t, append(States(), ""), row.From)
		require.Contains(t, States(), row.To)
	}
}

// Every function that returns a transition has a row, and its event.
func TestTransitionEvents(t *testing.T) {
	all := map[string]Transition{
		activate: Activate("c", Fresh, nil), fail: Fail("c", "why"), beginRelease: BeginRelease("c", "why", false),
		retain: Retain("c", "why", activity.ClaimReleaseFailedData{}), finish: Finish("c", activity.ClaimReleasedData{Reason: "why"}),
		"end active": End("c", Active, "why"), "end pending": End("c", Pending, "why"),
	}
	for name, m := range all {
		require.Equal(t, "c", m.ID, name)
		require.NotEmpty(t, m.From, name)
		require.Len(t, m.Events, 1, name)
		for _, from := range m.From {
			require.True(t, transitions.Has(from, m.To, m.Events[0].Type), "%s from %s", name, from)
		}
	}
}

// The diagram in the comment of State shows the table.
func TestDiagram(t *testing.T) {
	source, err := os.ReadFile("claim.go")
	require.NoError(t, err)
	require.ElementsMatch(t, transitions.Edges(), transition.DiagramEdges(string(source)))
}
