package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ValidationError is one error of a workload file.
type ValidationError struct {
	File    string `json:"file,omitempty" doc:"The name of the file."`
	Line    int    `json:"line,omitempty" doc:"From 1."`
	Column  int    `json:"column,omitempty" doc:"From 1."`
	Field   string `json:"field,omitempty" doc:"Its path, such as hooks.post_claim[1].timeout."`
	Message string `json:"message" doc:"What is wrong."`
	Hint    string `json:"hint,omitempty" doc:"What to write instead."`
}

// String returns the error on one line, in a form that editors can follow.
func (f ValidationError) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ":")
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
	}
	if b.Len() > 0 {
		b.WriteString(" ")
	}
	if f.Field != "" {
		b.WriteString(f.Field + ": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}

// ValidationErrors is the error of Parse: all errors of one file, ordered by
// line. It is never empty.
type ValidationErrors []ValidationError

// Error returns the errors, one per line.
func (fs ValidationErrors) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// maxErrors limits the number of errors of one file, because the list is part of
// HTTP responses. After maxKept a file is not read further.
const (
	maxErrors = 100
	maxKept   = 1000
)

// sortAndLimit sorts the errors by position and limits them to maxErrors.
func (fs ValidationErrors) sortAndLimit() ValidationErrors {
	slices.SortStableFunc(fs, func(a, b ValidationError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(fs) <= maxErrors {
		return fs
	}
	more := strconv.Itoa(len(fs) - maxErrors + 1)
	if len(fs) >= maxKept {
		more = "at least " + more
	}
	fs = fs[:maxErrors-1]
	last := fs[len(fs)-1]
	return append(fs, ValidationError{
		File: last.File, Line: last.Line, Column: last.Column,
		Message: more + " more errors",
	})
}

// truncate shortens a value for a message.
func truncate(s string) string {
	const limit = 60
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	return string(r[:limit]) + "…"
}
