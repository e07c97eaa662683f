package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// advise notes what is probably not meant: variables that the shell splits, or that
// it does not expand, and commands whose failure is not noticed. Each is noted once
// for a script.
func (j *judge) advise(f *syntax.File) {
	if pos, n := unquoted(f); n > 0 {
		j.add(call{pos: pos}, Finding{Rule: "unquoted variable", Class: Advice, Message: "is split at spaces, and * in it is replaced by names of files" + others(n), Hint: "write \"$NAME\""})
	}
	if pos, n := unexpanded(f); n > 0 {
		j.add(call{pos: pos}, Finding{Rule: "variable in single quotes", Class: Advice, Message: "stays as it is written: a shell expands nothing between single quotes" + others(n), Hint: `end them around it: '{"name": "'"$NAME"'"}'`})
	}
	if pos, n := unguarded(f); n > 0 {
		j.add(call{pos: pos}, Finding{Rule: "unguarded command", Class: Advice, Message: "may fail unnoticed, and the script continues" + others(n), Hint: "begin with set -e, or add || exit 1 or || true"})
	}
}

func others(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n-1)
}

// unquoted returns the position of the first variable that is an argument, or a
// part of one, without quotes, and how many there are.
func unquoted(f *syntax.File) (first syntax.Pos, n int) {
	syntax.Walk(f, func(node syntax.Node) bool {
		c, ok := node.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for _, w := range c.Args {
			for _, p := range w.Parts {
				if e, ok := p.(*syntax.ParamExp); ok && isSplit(e) {
					if n++; n == 1 {
						first = e.Pos()
					}
				}
			}
		}
		return true
	})
	return first, n
}

// isSplit reports whether the value of a variable may have spaces: numbers that
// the shell sets have none, nor what Hostler sets, except tenants.
func isSplit(e *syntax.ParamExp) bool {
	if e.Length || e.Width || e.Param == nil || strings.Contains("?#$!-", e.Param.Value) {
		return false
	}
	return !strings.HasPrefix(e.Param.Value, "HOSTLER_") || e.Param.Value == "HOSTLER_TENANT"
}

var (
	// An argument can begin with its option: -d'{"a": 1}', --data='{"a": 1}'.
	jsonRegexp     = regexp.MustCompile(`^(-[A-Za-z]|--?[A-Za-z][A-Za-z0-9_-]*=)?\s*(\{\s*"|\[\s*["{\[])`)
	variableRegexp = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})`)
	// dollarNameRegexp matches names of other languages in JSON: {"$ref": "#/a"}.
	dollarNameRegexp = regexp.MustCompile(`"\$[A-Za-z_]+"\s*:`)
)

// withVariables are programs whose own language has such variables.
var withVariables = []string{"jq", "yq", "gojq", "jaq", "awk", "gawk", "mawk", "perl"}

// unexpanded returns the position of the first text in single quotes that is a part
// of JSON and names a variable, and how many there are.
func unexpanded(f *syntax.File) (first syntax.Pos, n int) {
	look := func(w *syntax.Word) {
		if w == nil || !jsonRegexp.MatchString(wordArg(w).text) {
			return
		}
		for _, p := range w.Parts {
			if q, ok := p.(*syntax.SglQuoted); ok && variableRegexp.MatchString(dollarNameRegexp.ReplaceAllString(q.Value, "")) {
				if n++; n == 1 {
					first = q.Pos()
				}
			}
		}
	}
	syntax.Walk(f, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.Assign:
			look(node.Value)
		case *syntax.CallExpr:
			hasOwn := func(w *syntax.Word) bool { return slices.Contains(withVariables, path.Base(wordArg(w).text)) }
			if slices.ContainsFunc(node.Args, hasOwn) { // also behind a wrapper such as timeout
				return true
			}
			for _, w := range node.Args {
				look(w)
			}
		}
		return true
	})
	return first, n
}

// unguarded returns the position of the first command whose failure has no
// effect, and how many there are. The last command of a script decides its exit
// code.
func unguarded(f *syntax.File) (first syntax.Pos, n int) {
	if stopsAtErrors(f) {
		return first, 0
	}
	for i, s := range f.Stmts {
		c, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || s.Negated || s.Background || i == len(f.Stmts)-1 || len(c.Args) == 0 {
			continue
		}
		if name := wordArg(c.Args[0]).text; !slices.Contains(harmless, name) {
			if n++; n == 1 {
				first = s.Pos()
			}
		}
	}
	return first, n
}

// harmless are commands that do not fail, or whose failure is not an error.
var harmless = []string{
	"echo", "printf", ":", "true", "set", "export", "shift", "trap", "unset", "alias", "umask", "kill", "wait", "exit", "return", "sleep", "shopt", "ulimit",
}

// stopsAtErrors reports whether a script begins with set -e, or sets it later.
func stopsAtErrors(f *syntax.File) bool {
	for _, s := range f.Stmts {
		c, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || len(c.Args) < 2 || wordArg(c.Args[0]).text != "set" {
			continue
		}
		for _, w := range c.Args[1:] {
			if text := wordArg(w).text; text == "errexit" || strings.HasPrefix(text, "-") && strings.Contains(text, "e") {
				return true
			}
		}
	}
	return false
}
