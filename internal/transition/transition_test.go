package transition

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type state string

var table = Table[state]{
	{Name: "create", To: "new", Event: "thing.created"},
	{Name: "use", From: "new", To: "used", Event: "thing.used"},
	{Name: "use", From: "idle", To: "used", Event: "thing.used"},
	{Name: "rest", From: "used", To: "idle", Event: "thing.rested"},
	{Name: "pause", From: "used", To: "idle", Event: "thing.paused"},
}

func TestTable(t *testing.T) {
	require.True(t, table.Allows("new", "used"))
	require.True(t, table.Allows("idle", "idle"), "of other fields only")
	require.False(t, table.Allows("used", "new"), "the reverse")
	require.False(t, table.Allows("new", "idle"), "two rows")

	from, to, event := table.Named("use")
	require.Equal(t, []state{"new", "idle"}, from)
	require.Equal(t, state("used"), to)
	require.EqualValues(t, "thing.used", event)

	require.True(t, table.Has("used", "idle", "thing.paused"))
	require.False(t, table.Has("used", "idle", "thing.used"))
	require.Equal(t, []string{"new used", "idle used", "used idle"}, table.Edges())
}

// A diagram has the edges of its table. Other comments have none.
func TestDiagramEdges(t *testing.T) {
	require.Equal(t, table.Edges(), DiagramEdges(`
// State goes from new ─→ old.
//
//	new ─→ used       (a note)
//	idle ─→ used ─→ idle
//	idle ─→ used
type State string
`))
}
