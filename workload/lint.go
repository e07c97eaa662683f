package workload

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/lint"
)

// Lint judges the commands and the scripts of the hooks of w. Errors are what is
// not valid for its shell and, in CFN's form, what that forbids. Everything else
// is a note. A server accepts all of it: whether a shell accepts a script is not
// certain until it runs.
func (w *Workload) Lint(name string) (ValidationErrors, []Note) {
	d, f, err := decode(w.Source, name)
	if err != nil {
		return nil, nil // w was parsed
	}
	d.errs, d.notes = nil, nil
	source := strings.Split(string(w.Source), "\n")
	var seen []string
	for _, h := range f.Hooks.hooks {
		if slices.Contains(seen, h.actionAt) {
			continue // it is at several points
		}
		seen = append(seen, h.actionAt)
		for _, found := range d.lint(h) {
			d.addFinding(h, found, source)
		}
	}
	return d.errs.sortAndLimit(), sortedNotes(d.notes)
}

// placedFinding is a finding with the text that has it.
type placedFinding struct {
	lint.Finding
	at   string
	node *yaml.Node
}

// lint judges the action of a hook.
func (d *decoder) lint(h placedHook) []placedFinding {
	var all []placedFinding
	switch h.kind() {
	case hooks.KindScript:
		at := h.textAt("script")
		shell := h.Shell
		if len(shell) == 0 {
			shell = shellArgs{"/bin/sh"}
		}
		for _, f := range lint.Script(string(*h.Script), shell) {
			all = append(all, placedFinding{f, at, d.nodes[at]})
		}
	case hooks.KindCommand:
		at := h.textAt("command")
		for _, f := range lint.Args(h.Command) {
			child := elementOf(at, f.Arg)
			all = append(all, placedFinding{f, child, d.nodes[child]})
		}
	}
	return all
}

// textAt returns the path of a command or a script.
func (h placedHook) textAt(key string) string {
	if h.form == textForm {
		return h.at
	}
	return keyOf(h.actionAt, key)
}

// addFinding adds a finding as an error or as a note.
func (d *decoder) addFinding(h placedHook, f placedFinding, source []string) {
	v := ValidationError{File: d.file, Field: f.at, Hint: f.Hint}
	v.Line, v.Column = positionIn(f.node, f.Finding, source)
	switch f.Class {
	case lint.Invalid:
		v.Message = "is not valid for its shell: " + f.Message
	case lint.Forbidden, lint.Restricted:
		v.Message = fmt.Sprintf("has %s, which %s", f.Rule, f.Message)
	default:
		v.Message = fmt.Sprintf("%s: it %s", f.Rule, f.Message)
	}
	switch {
	case f.Class == lint.Invalid, f.Class == lint.Forbidden && h.form == textForm:
		d.errs = append(d.errs, v)
	case f.Class != lint.Restricted || h.form == textForm:
		d.notes = append(d.notes, Note(v))
	}
}

// positionIn returns the position in the file of a finding in a text. In a text
// that is not written line by line as it is, it is that of the text.
func positionIn(n *yaml.Node, f lint.Finding, source []string) (line, column int) {
	if n == nil {
		return 0, 0
	}
	line = n.Line + f.Line
	text := strings.Split(n.Value, "\n")
	if n.Style != yaml.LiteralStyle || f.Line == 0 || f.Line > len(text) || line > len(source) {
		return n.Line, n.Column
	}
	indent, ok := strings.CutSuffix(strings.TrimSuffix(source[line-1], "\r"), text[f.Line-1])
	if !ok {
		return n.Line, n.Column
	}
	return line, len(indent) + max(f.Column, 1)
}
