package lint

import (
	"fmt"
	"strings"
)

// Destructive reports whether a command destroys what cannot be restored, and how.
// What is too long or too deep to be read, and a script that no shell could read,
// counts as destructive: a shell runs the first lines of one.
func Destructive(args []string, environment map[string]string) (reason string, found bool) {
	j := judge{guard: newGuard(environment)}
	plain := make([]arg, len(args))
	size := 0
	for i, text := range args {
		plain[i] = arg{text: text, index: i, isPlain: true}
		size += len(text)
	}
	if size > maxGuarded {
		return fmt.Sprintf("the command is longer than %d bytes, too long to be read", maxGuarded), true
	}
	j.command(call{args: plain})
	for name, value := range environment {
		if startup[name] {
			j.nested(arg{text: expanding(value)}, "bash", call{})
		}
	}
	for _, f := range j.found {
		if f.Destructive {
			return fmt.Sprintf("%s: it %s", f.Rule, f.Message), true
		}
	}
	if j.guard.budget < 0 || j.guard.expanded < 0 {
		return tooLong.Rule + ": it " + tooLong.Message, true
	}
	return "", false
}

// startup are the variables whose values a shell expands before it runs a script, also
// the commands in them.
var startup = map[string]bool{"BASH_ENV": true, "ENV": true, "PS4": true}

// expanding returns a script that expands a value as that of such a variable, in which
// quotes and brackets mean nothing.
func expanding(value string) string {
	const end = "END-OF-VALUE"
	return "cat <<" + end + "\n" + strings.ReplaceAll(value, "\n"+end, "") + "\n" + end + "\n"
}

// maxGuarded bounds a command that is judged, in bytes.
const maxGuarded = 64 << 10
