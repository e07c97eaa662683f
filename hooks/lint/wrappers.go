package lint

import (
	"path"
	"slices"
	"strings"
)

// wrapper describes a program that starts the command in its arguments.
type wrapper struct {
	short    string   // letters of the options that take a value
	long     []string // names of those that take a separate one
	operands int      // before the command
	assigns  bool     // assignments stand before the command
}

// wrappers are these programs by name.
var wrappers = map[string]wrapper{
	"env":      {short: "uCSa", long: []string{"unset", "chdir", "split-string", "argv0"}, assigns: true},
	"sudo":     {short: "ugpCrtThDRU", long: []string{"user", "group", "prompt", "chdir", "host", "chroot", "role", "type"}, assigns: true},
	"doas":     {short: "uCL"},
	"xargs":    {short: "IEdLnPsa", long: []string{"arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"}},
	"timeout":  {short: "ks", long: []string{"kill-after", "signal"}, operands: 1},
	"nice":     {short: "n", long: []string{"adjustment"}},
	"ionice":   {short: "cnpPu", long: []string{"class", "classdata"}},
	"chrt":     {short: "TPD", operands: 1},
	"taskset":  {operands: 1},
	"nohup":    {},
	"setsid":   {},
	"time":     {short: "fo", long: []string{"format", "output"}},
	"stdbuf":   {short: "ioe", long: []string{"input", "output", "error"}},
	"exec":     {short: "a"},
	"command":  {},
	"builtin":  {},
	"busybox":  {},
	"toybox":   {},
	"chroot":   {operands: 1},
	"unshare":  {short: "SGRw", long: []string{"setuid", "setgid", "root", "wd"}},
	"nsenter":  {short: "tSGNr", long: []string{"target", "setuid", "setgid"}},
	"setpriv":  {long: []string{"reuid", "regid", "groups", "inh-caps", "bounding-set", "ambient-caps"}},
	"runuser":  {short: "ugGcs", long: []string{"user", "group", "supp-group", "command", "shell"}},
	"gosu":     {operands: 1},
	"su-exec":  {operands: 1},
	"flock":    {short: "wEc", long: []string{"timeout", "wait", "conflict-exit-code", "command"}, operands: 1},
	"strace":   {short: "aeEobOpPsSuUX"},
	"script":   {short: "cIOBTmEo", long: []string{"command"}, operands: 1},
	"parallel": {short: "jIaNLn", long: []string{"jobs", "arg-file"}},
	"tini":     {short: "pe"}, "dumb-init": {short: "r"}, "catchsegv": {}, "coproc": {}, "fakeroot": {}, "unbuffer": {}, "eatmydata": {},
}

// operandsOf returns the command that a wrapper starts, with its arguments.
func (w wrapper) operandsOf(args []arg) []arg {
	var begin []arg // from env -S
	i := 0
	for ; i < len(args); i++ {
		text := args[i].text
		if text == "--" {
			i++
			break
		}
		if len(text) < 2 || text[0] != '-' {
			break
		}
		value, isAttached, ok := w.option(text)
		switch {
		case !ok:
			continue
		case !isAttached:
			if i++; i == len(args) {
				continue
			}
			value = args[i].text
		}
		if name := strings.TrimLeft(text, "-"); w.assigns && (strings.HasPrefix(name, "split-string") || text[1] != '-' && strings.Contains(name, "S")) {
			begin = append(begin, fields(value, args[min(i, len(args)-1)].index)...)
		}
	}
	rest := append(begin, args[min(i, len(args)):]...)
	if w.assigns && len(rest) > 0 && rest[0].text == "-" { // env -
		rest = rest[1:]
	}
	for w.assigns && len(rest) > 0 && strings.Contains(rest[0].text, "=") {
		rest = rest[1:]
	}
	return rest[min(w.operands, len(rest)):]
}

// option reports whether an argument is an option with a value, and returns the
// value if it is in the same argument.
func (w wrapper) option(text string) (value string, isAttached, ok bool) {
	if name, isLong := strings.CutPrefix(text, "--"); isLong {
		name, value, isAttached = strings.Cut(name, "=")
		return value, isAttached, isAttached || slices.Contains(w.long, name)
	}
	for i, letter := range text {
		if i > 0 && strings.ContainsRune(w.short, letter) {
			value = text[i+1:]
			return value, value != "", true
		}
	}
	return "", false, false
}

// command judges a command, and those that it starts.
func (j *judge) command(c call) {
	if j.depth >= maxDepth {
		j.add(c, tooDeep)
		return
	}
	j.depth++
	defer func() { j.depth-- }()
	j.inAnyArgument(c)
	for n := 0; len(c.args) > 0; n++ {
		if n == maxWrappers {
			j.add(c, tooDeep)
			return
		}
		name := path.Base(c.args[0].text)
		if name == "runuser" && !startsCommand(c.args[1:]) {
			name = "su"
		}
		j.judgeCall(name, c)
		j.textOptions(name, c)
		w, ok := wrapperOf(name)
		if j.guard != nil {
			if j.guard.budget--; j.guard.budget < 0 {
				return // Destructive refuses
			}
			j.guardCall(name, c)
		}
		if j.textCommand(name, c) || !ok || name == "command" && isQuery(c.args[1:]) {
			return
		}
		c.args = w.operandsOf(c.args[1:])
		if name == "xargs" && j.guard != nil {
			c = withStdin(c)
		}
	}
}

// wrapperOf returns the wrapper of a name. The loader of programs is one.
func wrapperOf(name string) (wrapper, bool) {
	if strings.HasPrefix(name, "ld-") && strings.Contains(name, ".so") || strings.HasPrefix(name, "ld.so") {
		return wrapper{}, true
	}
	w, ok := wrappers[name]
	return w, ok
}

// withStdin returns the command that xargs starts with what it reads, as far as that is
// known.
func withStdin(c call) call {
	for _, in := range c.stdin {
		for _, text := range strings.Fields(in.text) {
			c.args = append(slices.Clip(c.args), arg{text: text, index: -1})
		}
	}
	return c
}

// textOptions judges the scripts that a program gets with -c. Options behind the
// command that it starts are those of the command.
func (j *judge) textOptions(name string, c call) {
	own := c.args[1:]
	switch name {
	case "su":
	case "runuser", "flock", "script":
		if rest := wrappers[name].operandsOf(own); len(rest) > 0 && !strings.HasPrefix(rest[0].text, "-") {
			own = own[:len(own)-len(rest)]
		}
	default:
		return
	}
	for i, a := range own {
		attached, ok := scriptOption(a.text)
		switch {
		case !ok:
		case attached != "":
			j.nested(arg{text: attached, index: a.index}, "sh", c)
		case i+1 < len(own):
			j.nested(own[i+1], "sh", c)
		}
	}
}

// scriptOption reports whether an argument is an option with a script, alone or behind
// letters of others, and returns the script if it is in the same argument.
func scriptOption(text string) (script string, ok bool) {
	if strings.HasPrefix(text, "--") {
		name, script, _ := strings.Cut(text, "=")
		return script, name == "--command" || name == "--session-command"
	}
	if !strings.HasPrefix(text, "-") {
		return "", false
	}
	_, script, ok = strings.Cut(text, "c")
	return script, ok
}

// startsCommand reports whether runuser is given a user with an option and starts
// the command in its arguments. Otherwise it is su.
func startsCommand(args []arg) bool {
	o := optionsOf(args[:len(args)-len(wrappers["runuser"].operandsOf(args))])
	return o.has("u") || o.long("user")
}

// isQuery reports whether command only describes its argument.
func isQuery(args []arg) bool {
	return len(args) > 0 && (args[0].text == "-v" || args[0].text == "-V")
}

// fields returns the words of the value of env -S.
func fields(text string, index int) []arg {
	var all []arg
	for _, f := range strings.Fields(strings.NewReplacer(`"`, "", `'`, "", `\_`, " ").Replace(text)) {
		all = append(all, arg{text: f, index: index})
	}
	return all
}

// textCommand judges the script in the arguments of a command, or on its stdin,
// and reports whether there is one.
func (j *judge) textCommand(name string, c call) bool {
	switch {
	case isShell(name):
		j.shell(name, c)
	case name == "eval" || name == "watch" || name == "ssh":
		rest := wrapper{short: textValues[name]}.operandsOf(c.args[1:])
		if name == "ssh" {
			rest = rest[min(1, len(rest)):] // the host
		}
		if len(rest) > 0 {
			j.nested(joined(rest), "sh", c)
		}
	case name == "trap":
		if rest := (wrapper{}).operandsOf(c.args[1:]); len(rest) > 1 {
			j.nested(rest[0], "sh", c)
		}
	case name == "find":
		j.find(c)
	default:
		return false
	}
	return true
}

// textValues are the options with a value of programs whose operands are joined
// to a script.
var textValues = map[string]string{"watch": "n", "ssh": "BbcDEeFIiJLlmOopQRSWw"}

// joined returns arguments as one text.
func joined(args []arg) arg {
	if len(args) == 1 {
		return args[0]
	}
	return arg{text: strings.Join(texts(args), " "), index: args[0].index}
}

// isShell reports whether a program is a shell.
func isShell(name string) bool {
	_, ok := languages[name]
	return ok || slices.Contains([]string{"zsh", "ksh", "ksh93", "yash", "rbash", "fish", "hush", "csh", "tcsh"}, name)
}

// shell judges the script that is the argument of -c or on stdin, and what the
// script may run as "$@".
func (j *judge) shell(name string, c call) {
	args, isText, isStdin := c.args[1:], false, false
	for len(args) > 0 && len(args[0].text) > 1 && strings.ContainsRune("-+", rune(args[0].text[0])) {
		text := args[0].text
		args = args[1:]
		switch {
		case text == "--":
		case strings.HasPrefix(text, "--"):
			if text == "--rcfile" || text == "--init-file" {
				args = args[min(1, len(args)):]
			}
			continue
		case strings.ContainsAny(text, "oO"):
			args = args[min(1, len(args)):]
		}
		isText, isStdin = isText || strings.Contains(text, "c"), isStdin || strings.Contains(text, "s")
		if text == "--" {
			break
		}
	}
	if j.guard != nil {
		if len(args) > 0 && !isText && strings.Contains(args[0].text, fromCommand) {
			j.add(c, fromPipe)
		}
		isStdin = isStdin || len(args) > 0 && isStdinFile(args[0].text)
		if isText && len(args) > 1 {
			j.guard.set("0", args[1].text)
		}
		j.guard.setPositional(args[min(2, len(args)):])
	}
	if !isText && (isStdin || len(args) == 0) {
		j.readsProgram(c, name)
	}
	if isText && (len(args) == 0 || args[0].text == "{}" || args[0].text == "%") {
		j.readsProgram(c, name) // of xargs
	}
	if !isText || len(args) == 0 {
		return
	}
	j.nested(args[0], name, c)
	if len(args) > 2 {
		j.command(call{args: args[2:], pos: c.pos})
	}
}

// find judges the commands that find starts.
func (j *judge) find(c call) {
	args := c.args[1:]
	for i := 0; i < len(args); i++ {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, args[i].text) {
			continue
		}
		begin := i + 1
		for i++; i < len(args) && args[i].text != ";" && args[i].text != "+"; i++ {
		}
		if begin < i {
			j.command(call{args: args[begin:i], pos: c.pos})
		}
	}
}
