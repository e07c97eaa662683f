package lint

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Marks in the texts of a guard.
const (
	separator   = "\x01" // where a shell splits a word
	fromCommand = "\x02" // what another command prints, and a shell may run
	// fromCommandParameter takes its place in a script.
	fromCommandParameter = "${__}"
)

// text returns a word as far as it is known, with separators.
func (j *judge) text(w *syntax.Word) string {
	var b strings.Builder
	j.writeKnown(&b, w.Parts, false)
	return b.String()
}

// fields returns the arguments that words become.
func (j *judge) fields(words []*syntax.Word) []arg {
	var all []arg
	for _, w := range words {
		for _, text := range braces(w, j.text(w)) {
			if !strings.Contains(text, separator) {
				all = append(all, arg{text: text, index: -1})
				continue
			}
			for field := range strings.SplitSeq(text, separator) {
				if field != "" {
					all = append(all, arg{text: field, index: -1})
				}
			}
		}
	}
	return all
}

// maxBraces bounds the words that one with braces becomes.
const maxBraces = 64

// braces returns the words that one with braces becomes: {rm,-rf,x}.
func braces(w *syntax.Word, text string) []string {
	for _, p := range w.Parts {
		if _, isLiteral := p.(*syntax.Lit); !isLiteral {
			return []string{text}
		}
	}
	all := []string{text}
	for i := 0; i < len(all) && len(all) < maxBraces; {
		end := strings.IndexByte(all[i], '}')
		begin := strings.LastIndexByte(all[i][:max(end, 0)], '{')
		if begin < 0 || !strings.Contains(all[i][begin:end], ",") {
			i++
			continue
		}
		before, after := all[i][:begin], all[i][end+1:]
		var expanded []string
		for choice := range strings.SplitSeq(all[i][begin+1:end], ",") {
			expanded = append(expanded, before+choice+after)
		}
		all = append(all[:i], append(expanded, all[i+1:]...)...)
	}
	return all
}

// writeKnown writes parts of a word as a guard reads them.
func (j *judge) writeKnown(b *strings.Builder, parts []syntax.WordPart, quoted bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.DblQuoted:
			j.writeKnown(b, p.Parts, true)
		case *syntax.ParamExp:
			writeValue(b, j.value(p), quoted)
		case *syntax.CmdSubst:
			writeValue(b, j.substituted(p), quoted)
		case *syntax.ProcSubst:
			b.WriteString(fromCommand)
		default:
			writeParts(b, []syntax.WordPart{p}, quoted)
		}
	}
}

func writeValue(b *strings.Builder, text string, quoted bool) {
	if !quoted {
		text = strings.NewReplacer(" ", separator, "\t", separator, "\n", separator).Replace(text)
	}
	b.WriteString(text)
}

// value returns the value of a variable that is tried.
func (j *judge) value(p *syntax.ParamExp) string {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet {
		return unknown
	}
	switch p.Param.Value {
	case "IFS":
		return separator
	case "__": // fromCommandParameter
		return fromCommand
	}
	values := j.guard.variables[p.Param.Value]
	if e := p.Exp; e != nil {
		switch e.Op {
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull, syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
			if e.Word != nil {
				values = append([]string{j.text(e.Word)}, values...)
			}
		case syntax.UpperFirst, syntax.UpperAll:
			return strings.ToUpper(j.pick(values))
		case syntax.LowerFirst, syntax.LowerAll:
			return strings.ToLower(j.pick(values))
		default:
			return unknown
		}
	}
	if p.Slice != nil || p.Repl != nil {
		return unknown
	}
	return j.pick(values)
}

// pick returns the value of the round.
func (j *judge) pick(values []string) string {
	if len(values) == 0 {
		return unknown
	}
	j.guard.rounds = max(j.guard.rounds, len(values))
	value := values[min(j.guard.round, len(values)-1)]
	if j.guard.expanded -= len(value) + 1; j.guard.expanded < 0 {
		return unknown // Destructive refuses
	}
	return value
}

// decoders are programs that make text of what does not look like it.
var decoders = map[string]bool{
	"base64": true, "base32": true, "basenc": true, "xxd": true, "openssl": true, "uudecode": true, "rev": true, "tr": true,
	"gzip": true, "gunzip": true, "zcat": true, "bunzip2": true, "xz": true,
}

// substituted returns what a command substitution prints, as far as it is known.
func (j *judge) substituted(c *syntax.CmdSubst) string {
	if len(c.Stmts) == 1 {
		if in := j.printed(c.Stmts[0]); in.isKnown {
			return strings.TrimRight(in.text, "\n")
		}
	}
	decodes := false
	syntax.Walk(c, func(n syntax.Node) bool {
		if e, ok := n.(*syntax.CallExpr); ok && len(e.Args) > 0 {
			decodes = decodes || decoders[baseOf(wordArg(e.Args[0]).text)]
		}
		return true
	})
	if decodes {
		return fromCommand
	}
	return unknown
}

// printed returns what a statement prints if it is echo or printf.
func (j *judge) printed(s *syntax.Stmt) stdin {
	e, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(s.Redirs) > 0 || s.Negated {
		return stdin{}
	}
	args := texts(j.fields(e.Args))
	if len(args) == 0 {
		return stdin{}
	}
	switch name := baseOf(args[0]); name {
	case "echo":
		return echoed(args[1:])
	case "printf":
		return formatted(args[1:])
	case "command", "builtin":
		return j.printedBy(args[1:])
	}
	return stdin{}
}

func (j *judge) printedBy(args []string) stdin {
	switch {
	case len(args) == 0:
	case args[0] == "echo":
		return echoed(args[1:])
	case args[0] == "printf":
		return formatted(args[1:])
	}
	return stdin{}
}

func echoed(args []string) stdin {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == "" {
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if strings.Contains(text, unknown) || strings.Contains(text, fromCommand) {
		return stdin{}
	}
	return stdin{unescapeANSI(text), true} // as dash does, and bash with -e
}

func formatted(args []string) stdin {
	if len(args) == 0 {
		return stdin{}
	}
	text, rest := args[0], args[1:]
	for strings.Contains(text, "%s") || strings.Contains(text, "%b") {
		value := ""
		if len(rest) > 0 {
			value, rest = rest[0], rest[1:]
		}
		i := strings.IndexByte(text, '%')
		if i+1 >= len(text) || !strings.ContainsRune("sb", rune(text[i+1])) {
			return stdin{}
		}
		text = text[:i] + strings.ReplaceAll(value, "%", "") + text[i+2:]
	}
	if len(rest) > 0 { // the format is used again
		text += strings.Join(rest, "")
	}
	if strings.ContainsAny(text, unknown+fromCommand+"%") {
		return stdin{}
	}
	return stdin{unescapeANSI(text), true}
}

func baseOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
