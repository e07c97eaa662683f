package claim

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// The table has every state, and a claim is live while a transition leads out
// of its state.
func TestTransitionsHaveEveryState(t *testing.T) {
	for _, s := range States() {
		leadsTo, leadsFrom := false, false
		for _, row := range transitions {
			leadsTo = leadsTo || row.to == s
			leadsFrom = leadsFrom || row.from == s
		}
		require.True(t, leadsTo, s)
		require.Equal(t, s.IsLive(), leadsFrom, s)
	}
	for _, row := range transitions {
		require.Contains(t, append(States(), ""), row.from)
		require.Contains(t, States(), row.to)
	}
}

// Every function that returns a transition has a row, and its event.
func TestTransitionEvents(t *testing.T) {
	all := map[string]Transition{
		activate: Activate("c", Fresh, nil), fail: Fail("c", "why"), beginRelease: BeginRelease("c", "why", false),
		retain: Retain("c", "why", activity.ClaimReleaseFailedData{}), finish: Finish("c", "why", nil, nil),
		"end active": End("c", Active, "why"), "end pending": End("c", Pending, "why"),
	}
	for name, m := range all {
		require.Equal(t, "c", m.ID, name)
		require.NotEmpty(t, m.From, name)
		require.Len(t, m.Events, 1, name)
		for _, from := range m.From {
			require.True(t, slices.ContainsFunc(transitions, func(row transition) bool {
				return row.from == from && row.to == m.To && row.event == m.Events[0].Type
			}), "%s from %s", name, from)
		}
	}
}

// The diagram in the comment of State shows the table.
func TestDiagram(t *testing.T) {
	var want []string
	for _, row := range transitions {
		if edge := string(row.from + " " + row.to); row.from != "" && !slices.Contains(want, edge) {
			want = append(want, edge)
		}
	}
	require.ElementsMatch(t, want, diagramEdges(t, "claim.go"))
}

// diagramEdges returns the arrows in the comments of a file.
func diagramEdges(t *testing.T, file string) (edges []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(source)) {
		chain, isDiagram := strings.CutPrefix(line, "//\t")
		if !isDiagram || !strings.Contains(chain, "─→") {
			continue
		}
		from := ""
		for part := range strings.SplitSeq(chain, "─→") {
			state, _, _ := strings.Cut(strings.TrimSpace(part), " ")
			if edge := from + " " + state; from != "" && !slices.Contains(edges, edge) {
				edges = append(edges, edge)
			}
			from = state
		}
	}
	return edges
}
