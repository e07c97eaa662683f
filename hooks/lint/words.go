package lint

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// unknown stands for what a shell would supply: it cannot be in an argument. In
// a script that contains it, unknownParameter takes its place.
const (
	unknown          = "\x00"
	unknownParameter = "${_}"
)

// arg is an argument of a command as far as it is known.
type arg struct {
	text  string // with unknown for what is not
	index int    // of the argument, -1 in a script
	// isPlain reports whether the argument is not from a script.
	isPlain bool
}

// call is a command with its arguments.
type call struct {
	args  []arg
	pos   syntax.Pos // in the script; the zero value for a command without one
	stdin []arg      // here-documents and here-strings
	piped bool       // stdin is what another command prints
}

// wordArg returns the argument that a word of a script becomes.
func wordArg(w *syntax.Word) arg {
	var b strings.Builder
	writeParts(&b, w.Parts, false)
	return arg{text: b.String(), index: -1}
}

func writeParts(b *strings.Builder, parts []syntax.WordPart, quoted bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value, quoted))
		case *syntax.SglQuoted:
			if p.Dollar {
				b.WriteString(unescapeANSI(p.Value))
			} else {
				b.WriteString(p.Value)
			}
		case *syntax.DblQuoted:
			writeParts(b, p.Parts, true)
		default:
			b.WriteString(unknown)
		}
	}
}

// unescape removes the backslashes of a literal.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) || quoted && !strings.ContainsRune("$`\"\\\n", rune(s[i+1])) {
			b.WriteByte(s[i])
			continue
		}
		if i++; s[i] != '\n' { // else it joins the lines
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// unescapeANSI returns what $'…' means.
func unescapeANSI(s string) string {
	var b strings.Builder
	for s != "" {
		r, multibyte, rest, err := strconv.UnquoteChar(s, '\'')
		if err != nil { // an escape that only shells have
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		if multibyte || r < 0x80 {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
		s = rest
	}
	return b.String()
}

// statement judges a command of a script and where it writes to.
func (j *judge) statement(s *syntax.Stmt) {
	c := call{pos: s.Pos()}
	if j.guard != nil {
		j.addStdin(&c, s)
	}
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
			j.writes(c, j.wordText(r.Word))
		case syntax.Hdoc, syntax.DashHdoc:
			if r.Hdoc != nil {
				c.stdin = append(c.stdin, heredoc(r.Hdoc))
			}
		case syntax.WordHdoc:
			c.stdin = append(c.stdin, arg{text: j.wordText(r.Word), index: -1})
		}
	}
	if e, ok := s.Cmd.(*syntax.CallExpr); ok {
		c.args = j.wordArgs(e.Args)
		j.command(c)
	}
}

// heredoc returns the text of a here-document.
func heredoc(w *syntax.Word) arg {
	var b strings.Builder
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			b.WriteString(l.Value)
		} else {
			b.WriteString(unknown)
		}
	}
	return arg{text: b.String(), index: -1}
}

// texts returns the texts of arguments.
func texts(args []arg) []string {
	all := make([]string, len(args))
	for i, a := range args {
		all[i] = a.text
	}
	return all
}

// wordText returns the text that a word of a script becomes.
func (j *judge) wordText(w *syntax.Word) string {
	if j.guard != nil {
		return strings.ReplaceAll(j.text(w), separator, " ")
	}
	return wordArg(w).text
}

// wordArgs returns the arguments that words of a script become.
func (j *judge) wordArgs(words []*syntax.Word) []arg {
	if j.guard != nil {
		return j.fields(words)
	}
	var all []arg
	for _, w := range words {
		all = append(all, wordArg(w))
	}
	return all
}

// addStdin adds what a command reads from another one.
func (j *judge) addStdin(c *call, s *syntax.Stmt) {
	in, ok := j.guard.piped[s]
	c.piped = ok
	if in.isKnown {
		c.stdin = append(c.stdin, arg{text: in.text, index: -1})
	}
	for _, r := range s.Redirs {
		if r.Op == syntax.RdrIn && r.Word != nil && j.text(r.Word) == fromCommand {
			c.piped = true
		}
	}
}
