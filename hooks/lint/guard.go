package lint

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// guard is what a judge knows that enforces: it reads more than one that advises, and
// what it cannot read is a finding. It does not follow the order of a script: a variable
// may have each value that the script gives it.
type guard struct {
	budget    int                 // commands that are still judged
	expanded  int                 // bytes of values that may still be inserted
	variables map[string][]string // values that a name may have, the last ones
	functions []string
	piped     map[*syntax.Stmt]stdin
	round     int // which values are tried
	rounds    int // how many values a variable of the command has at most
}

// stdin is what a command reads from another one.
type stdin struct {
	text    string
	isKnown bool
}

// Bounds of what a guard reads and keeps.
const (
	maxJudged    = 4096 // commands that are judged for one
	maxExpanded  = 1 << 20
	maxVariables = 256
	maxValues    = 8
	maxValue     = 4 << 10
	maxOpen      = 256  // brackets in each other
	maxCompound  = 2048 // compound commands in each other, or words of prose like theirs
)

func newGuard(environment map[string]string) *guard {
	g := &guard{budget: maxJudged, expanded: maxExpanded, variables: map[string][]string{}, piped: map[*syntax.Stmt]stdin{}}
	for name, value := range environment {
		g.set(name, value)
	}
	return g
}

// set adds a value that a variable may have.
func (g *guard) set(name, value string) {
	known, ok := g.variables[name]
	if len(value) > maxValue || !ok && len(g.variables) >= maxVariables || slices.Contains(known, value) {
		return
	}
	if len(known) == maxValues {
		known = known[1:]
	}
	g.variables[name] = append(slices.Clip(known), value)
}

// setPositional sets the parameters of a script or a function.
func (g *guard) setPositional(args []arg) {
	all := texts(args)
	for i, text := range all[:min(len(all), 9)] {
		g.set(strconv.Itoa(i+1), text)
	}
	g.set("@", strings.Join(all, separator))
	g.set("*", strings.Join(all, separator))
}

var (
	unreadable = Finding{Rule: "script", Class: Forbidden, Destructive: true, Message: "cannot be read: no shell could run all of it"}
	tooLong    = Finding{Rule: "script", Class: Forbidden, Destructive: true, Message: "is too long to be read"}
	fromPipe   = Finding{Rule: "a shell", Class: Forbidden, Destructive: true, Message: "runs what another command prints"}
)

// isDeep reports whether brackets or compound commands of a text are, as far as a look at
// its letters shows, in more of each other than a parser should follow: each costs it
// some KiB of stack.
func isDeep(text string) bool {
	depth := 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
		if depth > maxOpen {
			return true
		}
	}
	return len(openRegexp.FindAllString(text, -1))-len(closeRegexp.FindAllString(text, -1)) > maxCompound
}

var (
	openRegexp  = regexp.MustCompile(`\b(if|while|until|for|select|case)\b`)
	closeRegexp = regexp.MustCompile(`\b(fi|done|esac)\b`)
)

// guardScript judges a script as one that a tenant wants to run.
func (j *judge) guardScript(text string, l language) {
	switch {
	case len(text) > maxGuarded:
		j.add(call{}, tooLong)
		return
	case isDeep(text):
		j.add(call{}, tooDeep)
		return
	}
	var file *syntax.File
	for _, variant := range []syntax.LangVariant{l.variant, syntax.LangBash, syntax.LangPOSIX, syntax.LangMirBSDKorn} {
		if read, err := parse(text, variant); err == nil {
			file = read
			break
		}
	}
	if file == nil {
		j.add(call{}, unreadable)
		return
	}
	for range 2 { // a value may have another one that is set later
		syntax.Walk(file, j.collect)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				j.pipe(n.Y, j.printed(n.X))
			}
		case *syntax.ProcSubst:
			for _, s := range n.Stmts {
				j.pipe(s, stdin{})
			}
		case *syntax.Stmt:
			j.guardStatement(n)
		}
		return true
	})
}

// collect takes the values of variables and functions.
func (j *judge) collect(n syntax.Node) bool {
	g := j.guard
	switch n := n.(type) {
	case *syntax.Assign:
		if n.Name == nil {
			return true
		}
		if n.Value != nil {
			g.set(n.Name.Value, j.text(n.Value))
		}
		if n.Array != nil {
			var words []string
			for _, e := range n.Array.Elems {
				if e.Value != nil {
					words = append(words, j.text(e.Value))
				}
			}
			g.set(n.Name.Value, strings.Join(words, separator))
		}
	case *syntax.WordIter:
		for _, item := range n.Items {
			g.set(n.Name.Value, j.text(item))
		}
	case *syntax.FuncDecl:
		if n.Name != nil && len(g.functions) < maxVariables {
			g.functions = append(g.functions, n.Name.Value)
		}
	case *syntax.CallExpr:
		args := j.fields(n.Args)
		switch {
		case len(args) == 0:
		case args[0].text == "set" && len(args) > 1 && args[1].text == "--":
			g.setPositional(args[2:])
		case args[0].text == "set" && len(args) > 1 && !strings.HasPrefix(args[1].text, "-") && !strings.HasPrefix(args[1].text, "+"):
			g.setPositional(args[1:])
		case slices.Contains(g.functions, args[0].text):
			g.setPositional(args[1:])
		}
	}
	return true
}

// pipe has the commands of a statement read what another one prints.
func (j *judge) pipe(s *syntax.Stmt, in stdin) {
	syntax.Walk(s, func(n syntax.Node) bool {
		if inner, ok := n.(*syntax.Stmt); ok {
			j.guard.piped[inner] = in
		}
		return true
	})
}

// guardStatement judges a statement with each value of its variables.
func (j *judge) guardStatement(s *syntax.Stmt) {
	g := j.guard
	round, rounds := g.round, g.rounds
	defer func() { g.round, g.rounds = round, rounds }()
	g.round, g.rounds = 0, 1
	for ; g.round < g.rounds; g.round++ {
		if g.budget < 0 || g.expanded < 0 {
			return
		}
		j.statement(s)
	}
}

// guardCall judges what only a guard reads of a command.
func (j *judge) guardCall(name string, c call) {
	args := c.args[1:]
	switch {
	case strings.ContainsAny(name, unknown+fromCommand):
		j.unknownProgram(c)
	case strings.ContainsAny(name, "*?["):
		for _, r := range rules {
			for _, program := range r.programs {
				if ok, err := path.Match(name, program); err == nil && ok && r.destructive {
					j.judgeCall(program, c)
				}
			}
		}
	}
	switch name {
	case "alias":
		for _, a := range args {
			if _, value, ok := strings.Cut(a.text, "="); ok {
				j.nested(arg{text: value, index: a.index}, "sh", c)
			}
		}
	case "env", "sudo", "export", "declare", "readonly":
		for _, a := range args {
			if variable, value, ok := strings.Cut(a.text, "="); ok {
				j.guard.set(variable, value)
			}
		}
	case "git":
		j.gitAliases(c)
	case "find":
		if slices.ContainsFunc(args, func(a arg) bool { return a.text == "-delete" }) && !isSelective(args) {
			j.add(c, Finding{Rule: "find -delete", Class: Forbidden, Destructive: true, Message: "removes directories without asking"})
		}
	case "at", "batch":
		j.readsProgram(c, "sh")
	case "source", ".":
		if len(args) > 0 && isStdinFile(args[0].text) {
			j.readsProgram(c, "sh")
		} else if len(args) > 0 && strings.Contains(args[0].text, fromCommand) {
			j.add(c, fromPipe)
		}
	}
	if isInterpreter(name) {
		j.interpreted(c)
	}
}

// unknownProgram judges a command whose program is not known: it may be each that
// destroys with these arguments, or start the rest.
func (j *judge) unknownProgram(c call) {
	args := c.args[1:]
	if c.args[0].text == fromCommand {
		j.add(c, fromPipe)
	}
	for _, r := range rules {
		if r.destructive && r.matches != nil && r.name != "rm -rf" && r.matches(optionsOf(args)) {
			j.add(c, Finding{Rule: r.name, Class: r.class, Destructive: true, Message: r.message, Hint: r.hint})
		}
	}
	if o := optionsOf(args); rules[0].matches(o) && strings.Trim(o.letters, "rRfvidI") == "" {
		j.judgeCall("rm", c)
	}
	if len(args) > 0 {
		j.command(call{args: args, pos: c.pos, stdin: c.stdin, piped: c.piped})
	}
}

// selections are the tests of find that name files.
var selections = []string{
	"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin",
	"-newer", "-size", "-empty",
}

// isSelective reports whether find looks for some files, not for all.
func isSelective(args []arg) bool {
	for i, a := range args {
		isAny := i+1 < len(args) && strings.Trim(args[i+1].text, "*") == ""
		if slices.Contains(selections, a.text) && (a.text == "-empty" || !isAny) {
			return true
		}
	}
	return false
}

// gitAliases judges the aliases that git gets with -c.
func (j *judge) gitAliases(c call) {
	for i, a := range c.args[1:] {
		key, value, ok := strings.Cut(a.text, "=")
		if !ok || !strings.HasPrefix(strings.ToLower(key), "alias.") || c.args[i].text != "-c" {
			continue
		}
		if script, isShell := strings.CutPrefix(value, "!"); isShell {
			j.nested(arg{text: script, index: a.index}, "sh", c)
			continue
		}
		j.nested(arg{text: "git " + value, index: a.index}, "sh", c)
	}
}

// isStdinFile reports whether a file is what a program reads from another one.
func isStdinFile(name string) bool {
	return slices.Contains([]string{"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}, name)
}

// readsProgram judges what a shell reads from another command.
func (j *judge) readsProgram(c call, shell string) {
	for _, text := range c.stdin {
		j.nested(text, shell, c)
	}
	if c.piped && len(c.stdin) == 0 {
		j.add(c, fromPipe)
	}
}

var interpreterRegexp = regexp.MustCompile(`^(python[0-9.]*|perl[0-9.]*|ruby[0-9.]*|node|nodejs|deno|bun|php[0-9.]*|lua[0-9.]*|g?awk|mawk|nawk)$`)

func isInterpreter(name string) bool { return interpreterRegexp.MatchString(name) }

var quotedRegexp = regexp.MustCompile(`"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|` + "`(?:\\\\.|[^`\\\\])*`")

// interpreted judges the texts in a program of another language, which may give them to
// a shell. Those that are no script are none.
func (j *judge) interpreted(c call) {
	for _, a := range c.args[1:] {
		for _, quoted := range quotedRegexp.FindAllString(a.text, maxValues*maxValues) {
			text := quoted[1 : len(quoted)-1]
			if _, err := parse(text, syntax.LangBash); err == nil && !isDeep(text) {
				j.nested(arg{text: text, index: a.index}, "bash", c)
			}
		}
	}
}
