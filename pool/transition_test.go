package pool

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/transition"
)

// The table has every state, and only the last state is final.
func TestTransitionsHaveEveryState(t *testing.T) {
	for _, s := range States() {
		leadsTo, leadsFrom := false, false
		for _, row := range transitions {
			leadsTo = leadsTo || row.To == s
			leadsFrom = leadsFrom || row.From == s
		}
		require.True(t, leadsTo, s)
		require.Equal(t, s != Destroyed, leadsFrom, s)
	}
	for _, row := range transitions {
		require.Contains(t, append(States(), ""), row.From)
		require.Contains(t, States(), row.To)
	}
}

// Every function that returns a transition has a row, and its event.
func TestTransitionEvents(t *testing.T) {
	all := map[string]Transition{
		ready: Ready("c", nil), beginDestroy: BeginDestroy("c", []State{Creating, Idle, Claimed}, "why"), finish: finishDestroy("c", "why"),
		giveBack: Return("why", nil),
	}
	for name, m := range all {
		require.NotEmpty(t, m.From, name)
		require.Len(t, m.Events, 1, name)
		for _, from := range m.From {
			require.True(t, transitions.Has(from, m.To, m.Events[0].Type), "%s from %s", name, from)
		}
	}
}

// The diagram in the comment of State shows the table.
func TestDiagram(t *testing.T) {
	source, err := os.ReadFile("container.go")
	require.NoError(t, err)
	require.ElementsMatch(t, transitions.Edges(), transition.DiagramEdges(string(source)))
}
