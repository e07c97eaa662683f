// Package lint judges the commands and the scripts of hooks, and those of
// tenants: which destroy what cannot be restored, which are no shell, and which
// are probably not what their author meant.
//
// It reads them as a shell does, so it sees a command also behind sh -c, env -S,
// xargs and in a command substitution, and options in every order. Script and Args,
// which advise authors, evaluate nothing: what a variable or a file supplies is not
// seen. Destructive, which decides about commands of tenants, also knows the values
// that a script itself gives to variables, and refuses what it cannot read. All of it
// protects against accidents, and is not a boundary for anyone who wants to evade it.
//
// Script and Args never fail and take time in proportion to the text; what Destructive
// reads, keeps and follows is bounded (guard.go). To add a
// rule, add a row to the table in rules.go; to look behind another program that
// starts commands, add one to the table in wrappers.go.
package lint

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Class is what a finding means.
type Class string

// The classes.
const (
	Forbidden  Class = "forbidden"  // it destroys, or it changes the system
	Restricted Class = "restricted" // it acts outside the workspace, or on other processes
	Invalid    Class = "invalid"    // it is not valid for its shell
	Advice     Class = "advice"     // it probably does not do what was meant
)

// Finding is what is remarkable about a command.
type Finding struct {
	Rule  string // such as "rm -rf"
	Class Class
	// Destructive reports whether the rule is one of those that guards enforce.
	Destructive bool
	Message     string // what the command does; it follows the rule
	Hint        string // what to write instead; may be empty
	// Line and Column, from 1, are the position in the text, and Arg is the index
	// of the argument that has the text. Line is 0 if the argument is not a script.
	Arg, Line, Column int
}

// Script judges the text of a script for a shell. A shell that is not known, or
// that this package cannot read, has no findings.
func Script(text string, shell []string) []Finding {
	l, ok := languageOf(shell)
	if !ok {
		return nil
	}
	j := judge{at: func(p syntax.Pos) Finding { return Finding{Line: int(p.Line()), Column: int(p.Col())} }}
	j.script(text, l)
	return j.sorted()
}

// Args judges a command that is started without a shell.
func Args(argv []string) []Finding {
	j := judge{}
	args := make([]arg, len(argv))
	for i, text := range argv {
		args[i] = arg{text: text, index: i, isPlain: true}
	}
	j.command(call{args: args})
	return j.sorted()
}

// language is a language of shells.
type language struct {
	variant syntax.LangVariant
	// isLoose reports whether the shell of this name understands more on some
	// systems.
	isLoose bool
}

// languages are the languages by the name of the shell.
var languages = map[string]language{
	"sh": {syntax.LangPOSIX, true}, "ash": {syntax.LangPOSIX, true}, "dash": {syntax.LangPOSIX, false},
	"bash": {syntax.LangBash, false}, "mksh": {syntax.LangMirBSDKorn, false},
}

// languageOf returns the language of a shell, also behind env and busybox.
func languageOf(shell []string) (language, bool) {
	for i, a := range shell {
		name := path.Base(a)
		if l, ok := languages[name]; ok {
			return l, true
		}
		if name != "env" && name != "busybox" && !(i > 0 && strings.HasPrefix(a, "-")) {
			break
		}
	}
	return language{}, false
}

// Limits of what a judge follows. What is deeper is a finding.
const (
	maxDepth    = 8  // scripts in scripts
	maxWrappers = 32 // programs that start programs
)

// judge collects findings.
type judge struct {
	depth int
	guard *guard // nil: it advises
	// at returns a finding at a position of the text; nil if there is none.
	at    func(syntax.Pos) Finding
	found []Finding
}

// add adds a finding about a call.
func (j *judge) add(c call, f Finding) {
	place := Finding{}
	if j.at != nil && c.pos.IsValid() {
		place = j.at(c.pos)
	} else if len(c.args) > 0 {
		place.Arg = max(c.args[0].index, 0)
	}
	f.Arg, f.Line, f.Column = place.Arg, place.Line, place.Column
	if !slices.Contains(j.found, f) {
		j.found = append(j.found, f)
	}
}

// script judges a text.
func (j *judge) script(text string, l language) {
	if j.guard != nil {
		j.guardScript(text, l)
		return
	}
	file, err := parse(text, l.variant)
	if err != nil && l.isLoose {
		if other, looseErr := parse(text, syntax.LangBash); looseErr == nil {
			j.invalid(err, Advice, "is understood only where sh is bash: ")
			file, err = other, nil
		}
	}
	if err != nil {
		j.invalid(err, Invalid, "")
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if s, ok := n.(*syntax.Stmt); ok {
			j.statement(s)
		}
		return true
	})
	j.advise(file)
}

func parse(text string, l syntax.LangVariant) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(l)).Parse(strings.NewReader(text), "")
}

// invalid adds the error of the parser.
func (j *judge) invalid(err error, class Class, prefix string) {
	f, c := Finding{Rule: "syntax", Class: class}, call{}
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		f.Message, c.pos = e.Text, e.Pos
	} else if e, ok := errors.AsType[syntax.LangError](err); ok {
		c.pos = e.Pos
		_, f.Message, _ = strings.Cut(e.Error(), ": ") // without the position
	} else {
		f.Message = err.Error()
	}
	f.Message = prefix + f.Message
	j.add(c, f)
}

// nested judges a script that is an argument of a command. Its findings are at
// the argument, or in it if the argument has the script as it is.
func (j *judge) nested(text arg, shell string, c call) {
	l, ok := languages[path.Base(shell)]
	if !ok {
		l = languages["sh"]
	}
	inner := judge{depth: j.depth + 1, guard: j.guard}
	inner.at = func(p syntax.Pos) Finding {
		switch {
		case j.at != nil && c.pos.IsValid():
			return j.at(c.pos)
		case text.isPlain:
			return Finding{Arg: text.index, Line: int(p.Line()), Column: int(p.Col())}
		}
		return Finding{Arg: max(text.index, 0)}
	}
	inner.script(asScript.Replace(text.text), l)
	for _, f := range inner.found {
		if f.Rule == "syntax" && (!ok || strings.Contains(text.text, unknown)) {
			continue // it may be valid once it is complete, or for its shell
		}
		if !slices.Contains(j.found, f) {
			j.found = append(j.found, f)
		}
	}
}

// asScript makes a script of a text that is not known whole.
var asScript = strings.NewReplacer(unknown, unknownParameter, separator, " ", fromCommand, fromCommandParameter)

// tooDeep is the finding about what is not read.
var tooDeep = Finding{Rule: "nesting", Class: Forbidden, Destructive: true, Message: "is too deep to be read"}

// sorted returns the findings in order of their positions.
func (j *judge) sorted() []Finding {
	slices.SortStableFunc(j.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Arg, b.Arg), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return j.found
}
