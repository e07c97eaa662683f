package lint

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// rule is a row of the table: what is remarkable about a program.
type rule struct {
	name        string // empty: the name of the program
	class       Class
	destructive bool // guards enforce it
	programs    []string
	matches     func(o options) bool // nil: always
	message     string
	hint        string // what to write instead
}

// rules is the table. Its forbidden rows are CFN's list and lionagi's patterns.
var rules = []rule{
	{"rm -rf", Forbidden, true, []string{"rm"}, func(o options) bool {
		return (o.has("rR") || o.long("recursive")) && (o.has("f") || o.long("force"))
	}, "removes directories without asking", "name the files, or write rm -r"},
	{"git push --force", Forbidden, true, []string{"git"}, func(o options) bool {
		o, ok := o.subcommand("push")
		return ok && (o.has("f") || o.longPrefix("force") || slices.ContainsFunc(o.operands, func(s string) bool { return strings.HasPrefix(s, "+") }))
	}, "overwrites the history of a repository", "push without it"},
	{"git reset --hard", Forbidden, true, []string{"git"}, func(o options) bool {
		o, ok := o.subcommand("reset")
		return ok && o.long("hard")
	}, "discards changes that are not committed", "write git stash, or check out the files that are meant"},
	{"git clean -fd", Forbidden, true, []string{"git"}, func(o options) bool {
		o, ok := o.subcommand("clean")
		return ok && (o.has("f") || o.long("force")) && o.has("d")
	}, "removes files that are not in the repository", "name the files"},
	{"mkfs", Forbidden, true, []string{"mkfs", "mke2fs", "mkswap", "mkdosfs"}, nil, "erases a file system", "prepare file systems elsewhere"},
	{"dd of=", Forbidden, true, []string{"dd"}, namesFile, "copies to a file or a device without asking", "write cp or head -c"},
	{"dd", Forbidden, false, []string{"dd"}, func(o options) bool { return !namesFile(o) }, "copies without asking", "write cp or head -c"},
	{"writing to /dev/sd*", Forbidden, true, []string{"tee", "cp", "mv", "install", "truncate", "wipefs", "blkdiscard"}, func(o options) bool {
		return slices.ContainsFunc(o.operands, isDisk)
	}, "overwrites a disk", "write to a file"},
	{"shred", Forbidden, false, []string{"shred"}, nil, "overwrites files", "write rm"},
	{"chmod 777", Forbidden, false, []string{"chmod"}, func(o options) bool {
		return slices.ContainsFunc(o.operands, openModeRegexp.MatchString)
	}, "lets every user write", "permit what is needed, such as chmod 770"},
	{"chown root", Forbidden, false, []string{"chown"}, func(o options) bool {
		return slices.ContainsFunc(o.operands, rootRegexp.MatchString)
	}, "gives files to root", "let the user of the workload own them"},
	{"sudo", Forbidden, false, []string{"sudo", "doas"}, nil, "acts as another user", "give the hook a user"},
	{"nc -l", Forbidden, false, []string{"nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"}, func(o options) bool {
		return o.has("l") || o.long("listen")
	}, "listens on the network", "let the main process listen"},
	{"nmap", Forbidden, false, []string{"nmap"}, nil, "scans the network", "remove it"},
	{"tcpdump", Forbidden, false, []string{"tcpdump"}, nil, "reads the network's traffic", "remove it"},
	{"", Restricted, false, []string{"kill", "pkill", "killall"}, nil, "signals processes, perhaps others than those of the workload", "signal $HOSTLER_MAIN_PID, or what the hook has started"},
	{"", Restricted, false, []string{"curl", "wget", "ssh", "scp", "sftp", "rsync", "telnet", "ftp", "socat", "nc", "ncat", "netcat"}, nil,
		"uses the network", "write an http hook, which the server sends"},
}

var (
	openModeRegexp = regexp.MustCompile(`^(0*[24567]?777|(a|ugo)?[+=]rwx)$`)
	rootRegexp     = regexp.MustCompile(`^(root|\+?0+)([:.].*)?$`)
	diskRegexp     = regexp.MustCompile(`^/+dev/+(sd|hd|vd|xvd|nvme|mmcblk|disk/)`)
	dataRegexp     = regexp.MustCompile(`(?is)\b(drop(?:\s|/\*.*?\*/)+table|drop(?:\s|/\*.*?\*/)+database|truncate(?:\s|/\*.*?\*/)+table)\b`)
	dropRegexp     = regexp.MustCompile(`(?i)\bdrop\b`)
)

// namesFile reports whether dd is given a file.
func namesFile(o options) bool {
	return slices.ContainsFunc(o.operands, func(s string) bool { return strings.HasPrefix(s, "of=") || strings.HasPrefix(s, "if=") })
}

func isDisk(path string) bool { return diskRegexp.MatchString(path) }

// judgeCall applies the rules of a program.
func (j *judge) judgeCall(name string, c call) {
	kind, _, _ := strings.Cut(name, ".") // such as mkfs.ext4
	for _, r := range rules {
		if slices.Contains(r.programs, name) || kind == "mkfs" && r.name == kind {
			if r.matches == nil || r.matches(optionsOf(c.args[1:])) {
				j.add(c, Finding{Rule: cmp.Or(r.name, name), Class: r.class, Destructive: r.destructive, Message: r.message, Hint: r.hint})
			}
		}
	}
	if name == "sqlite3" && dropRegexp.MatchString(input(c)) {
		j.add(c, Finding{Rule: "sqlite3 DROP", Class: Forbidden, Message: "changes a database behind its program", Hint: "let the program that owns the database do it"})
	}
}

// inAnyArgument looks for statements of SQL that remove data, whatever program
// has them in its arguments or on its stdin.
func (j *judge) inAnyArgument(c call) {
	if m := dataRegexp.FindStringSubmatch(input(c)); m != nil {
		name := strings.Join(strings.Fields(strings.ToLower(commentRegexp.ReplaceAllString(m[1], " "))), " ")
		j.add(c, Finding{Rule: name, Class: Forbidden, Destructive: true, Message: "removes data of a database", Hint: "do it outside of hooks"})
	}
}

var commentRegexp = regexp.MustCompile(`(?s)/\*.*?\*/`)

// input returns the arguments and the stdin of a command as one text.
func input(c call) string { return strings.Join(append(texts(c.args), texts(c.stdin)...), " ") }

// writes judges the target of a redirection.
func (j *judge) writes(c call, target string) {
	if isDisk(target) {
		j.add(c, Finding{Rule: "writing to /dev/sd*", Class: Forbidden, Destructive: true, Message: "overwrites a disk", Hint: "write to a file"})
	}
}

// options are the arguments of a program, in the notation of getopt.
type options struct {
	args     []string // all of them
	letters  string
	longs    []string
	operands []string
}

func optionsOf(args []arg) options {
	o := options{args: texts(args)}
	for i, text := range o.args {
		name, isLong := strings.CutPrefix(text, "--")
		switch {
		case text == "--":
			o.operands = append(o.operands, o.args[i+1:]...)
			return o
		case isLong:
			name, _, _ = strings.Cut(name, "=")
			o.longs = append(o.longs, name)
		case len(text) > 1 && text[0] == '-':
			o.letters += text[1:]
		default:
			o.operands = append(o.operands, text)
		}
	}
	return o
}

// has reports whether one of some letters is given.
func (o options) has(letters string) bool { return strings.ContainsAny(o.letters, letters) }

// long reports whether an option is given, perhaps abbreviated.
func (o options) long(name string) bool {
	return slices.ContainsFunc(o.longs, func(given string) bool { return given != "" && strings.HasPrefix(name, given) })
}

// longPrefix reports whether an option whose name begins so is given.
func (o options) longPrefix(prefix string) bool {
	return slices.ContainsFunc(o.longs, func(given string) bool { return strings.HasPrefix(given, prefix) })
}

// subcommand returns the options of a subcommand of git, if it is the one that
// is given.
func (o options) subcommand(name string) (options, bool) {
	for i := 0; i < len(o.args); i++ {
		switch a := o.args[i]; {
		case slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}, a):
			i++
		case strings.HasPrefix(a, "-"), a == unknown:
		default:
			rest := make([]arg, 0, len(o.args)-i-1)
			for _, text := range o.args[i+1:] {
				rest = append(rest, arg{text: text})
			}
			return optionsOf(rest), a == name
		}
	}
	return options{}, false
}
