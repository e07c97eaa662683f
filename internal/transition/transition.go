// Package transition has the tables of the legal changes of a record's state.
//
// It promises that a change that has no row is not legal, and that the rows of
// one name lead to one state.
package transition

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
)

// Row is a legal change of state, with the type of the event that records it.
// From is empty for the state of a new record.
type Row[S ~string] struct {
	Name     string
	From, To S
	Event    activity.Type
}

// Table is all legal changes of the state of one kind of record.
type Table[S ~string] []Row[S]

// Allows reports whether a record in state from may change to the state to. A
// change of other fields only is always allowed.
func (t Table[S]) Allows(from, to S) bool {
	return from == to || slices.ContainsFunc(t, func(r Row[S]) bool { return r.From == from && r.To == to })
}

// Named returns the states from which the named change is legal, the state that
// it leads to, and the type of its event.
func (t Table[S]) Named(name string) (from []S, to S, event activity.Type) {
	for _, r := range t {
		if r.Name == name {
			from, to, event = append(from, r.From), r.To, r.Event
		}
	}
	return from, to, event
}

// Has reports whether the table has such a row.
func (t Table[S]) Has(from, to S, event activity.Type) bool {
	return slices.ContainsFunc(t, func(r Row[S]) bool { return r.From == from && r.To == to && r.Event == event })
}

// Edges returns the changes of existing records as "from to", without repeats,
// in the order of the table.
func (t Table[S]) Edges() (edges []string) {
	for _, r := range t {
		if edge := string(r.From + " " + r.To); r.From != "" && !slices.Contains(edges, edge) {
			edges = append(edges, edge)
		}
	}
	return edges
}

// DiagramEdges returns the arrows in the comments of Go source, in the form of
// Edges. A line of a diagram is indented by a tab.
func DiagramEdges(source string) (edges []string) {
	for line := range strings.Lines(source) {
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
