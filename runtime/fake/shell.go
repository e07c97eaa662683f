package fake

import (
	"context"
	"fmt"
	"strings"
)

// shellPath is where every container has a shell, and scriptPath the last
// argument of one that runs a script.
const (
	shellPath  = "/bin/sh"
	scriptPath = "/proc/self/fd/4"
)

// shell runs each line of its script as a program with arguments, without any
// other syntax, up to one that fails or keeps running.
func (rt *Runtime) shell(ctx context.Context, p *Proc) int {
	for line := range strings.Lines(p.Script) {
		args := strings.Fields(line)
		if len(args) == 0 || strings.HasPrefix(args[0], "#") {
			continue
		}
		if code := rt.runLine(ctx, p, args); code != 0 {
			return code
		}
	}
	return 0
}

// runLine runs a program in place of the shell.
func (rt *Runtime) runLine(ctx context.Context, p *Proc, args []string) int {
	if args[0] == "exit" {
		args = append([]string{"box"}, args...)
	}
	program, ok := rt.program(args[0])
	if !ok {
		fmt.Fprintln(p.Stderr, "sh: "+args[0]+": not found")
		return 127
	}
	p.Args = args
	return program(ctx, p)
}

// printScript prints the script and then stdin.
func printScript(p *Proc, args []string) error {
	if err := read(p, args); err != nil {
		return err
	}
	return cat(p, nil)
}
