package workload

import (
	"cmp"
	"slices"
)

// Note is a remark about a valid file: what it means, and what is probably a
// mistake. Its fields are those of an error.
type Note ValidationError

// String returns the note on one line, in a form that editors can follow.
func (n Note) String() string {
	v := ValidationError(n)
	if v.Field == "" {
		v.Message = "note: " + v.Message
		return v.String()
	}
	v.Field = "note: " + v.Field
	return v.String()
}

// addNoteAt adds a note about a path. Its position is that of the value, or of
// the nearest enclosing mapping.
func (d *decoder) addNoteAt(at, message, hint string) {
	n := d.nearest(at)
	d.notes = append(d.notes, Note{
		File: d.file, Line: n.Line, Column: n.Column, Field: at, Message: message, Hint: hint,
	})
}

// sortedNotes returns the notes by position, at most maxErrors.
func sortedNotes(all []Note) []Note {
	slices.SortStableFunc(all, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return all[:min(len(all), maxErrors)]
}
