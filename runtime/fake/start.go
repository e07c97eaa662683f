package fake

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// The limits of a kernel for an argv, in bytes.
const (
	maxArg  = 128 << 10
	maxArgs = 2 << 20
)

// mainPIDEnv is the variable with the PID of the main process.
const mainPIDEnv = "HOSTLER_MAIN_PID"

func startError(reason runtime.StartReason, format string, args ...any) error {
	return &runtime.StartError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// checkInput rejects what no kernel would accept.
func checkInput(cmd runtime.Command) error {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return startError(runtime.StartBadInput, "there is no command")
	}
	if len(cmd.Stdin) > runtime.MaxStdin {
		return startError(runtime.StartBadInput, "%d bytes of stdin are more than %d", len(cmd.Stdin), runtime.MaxStdin)
	}
	if len(cmd.Script) > runtime.MaxScript || strings.ContainsRune(cmd.Script, 0) {
		return startError(runtime.StartBadInput, "the script is too long or holds a NUL")
	}
	if l := cmd.Limits; min(int64(l.CPUTime), l.Memory, l.FileSize, l.Output) < 0 {
		return startError(runtime.StartBadInput, "a limit is negative")
	}
	total := 0
	for i, arg := range cmd.Args {
		if strings.ContainsRune(arg, 0) {
			return startError(runtime.StartBadInput, "argument %d holds a NUL", i)
		}
		if total += len(arg) + 1; len(arg) >= maxArg || total > maxArgs {
			return startError(runtime.StartBadInput, "argument %d is too long", i)
		}
	}
	for name, value := range cmd.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return startError(runtime.StartBadInput, "the environment entry %q is invalid", name)
		}
	}
	return nil
}

// prepare resolves what a process needs before it can start. The caller holds
// the lock.
func (c *container) prepare(rt *Runtime, p *Proc, user string, env map[string]string) error {
	var err error
	p.User, err = c.user, c.userErr
	if user != "" {
		p.User, err = c.files.accounts().lookup(user)
	}
	if err != nil {
		return err
	}
	p.Env = make(map[string]string, 2+len(c.spec.Environment)+len(env))
	p.Env["PATH"], p.Env["HOME"] = defaultPath, p.User.home
	maps.Copy(p.Env, c.spec.Environment)
	maps.Copy(p.Env, env)
	if p.run != nil && c.main != nil {
		p.Env[mainPIDEnv] = strconv.Itoa(c.main.pid)
	}
	if p.Dir == "" {
		p.Dir = c.spec.Workdir
	}
	p.Dir = path.Join("/", p.Dir)
	at, err := c.files.lookupExisting(p.Dir, true, &p.User)
	if err != nil || !at.node.mode.IsDir() || !isAllowed(at.node, &p.User, mayExec) {
		return startError(runtime.StartWorkdirNotFound, "the working directory %q cannot be entered", p.Dir)
	}
	p.Dir = at.path
	program, err := c.findProgram(rt, p)
	if start, ok := errors.AsType[*runtime.StartError](err); ok && p.Script != "" && start.Reason == runtime.StartBinaryNotFound {
		return startError(start.Reason, "the image has no %s, which the script needs", p.Args[0])
	}
	if err != nil {
		return err
	}
	p.setUp(program)
	return nil
}

// findProgram returns a process's program: by the name that it was added with,
// then as a file, by its path if it has a slash and else in PATH.
func (c *container) findProgram(rt *Runtime, p *Proc) (Program, error) {
	name := p.Args[0]
	if program, ok := rt.program(name); ok {
		return program, nil
	}
	candidates := []string{path.Join(p.Dir, name)}
	if path.IsAbs(name) {
		candidates[0] = name
	}
	if !strings.Contains(name, "/") {
		candidates = candidates[:0]
		for _, dir := range strings.Split(p.Env["PATH"], ":") {
			candidates = append(candidates, path.Join(p.Dir, dir, name))
			if path.IsAbs(dir) {
				candidates[len(candidates)-1] = path.Join(dir, name)
			}
		}
	}
	missing := startError(runtime.StartBinaryNotFound, "there is no program %q", name)
	for _, file := range candidates {
		at, err := c.files.lookupExisting(file, true, &p.User)
		if err != nil {
			continue
		}
		program, known := rt.program(at.node.program)
		if known && isAllowed(at.node, &p.User, mayExec) {
			return program, nil
		}
		missing = startError(runtime.StartNotExecutable, "%q is not a program that %d may run", file, p.User.UID)
	}
	if program, ok := rt.program("*"); ok {
		return program, nil
	}
	return nil, missing
}
