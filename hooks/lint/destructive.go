package lint

import "fmt"

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

// maxGuarded bounds a command that is judged, in bytes.
const maxGuarded = 64 << 10
