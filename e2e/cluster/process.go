package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// There are no pid files, because another process may have the pid later. A
// process is identified by its command line.

// process is a process with its command line at the time of the scan.
type process struct {
	pid  int
	argv []string
}

// processes lists the running processes. It omits zombies, whose command line is
// empty.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var list []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if argv := commandLine(pid); len(argv) > 0 {
			list = append(list, process{pid: pid, argv: argv})
		}
	}
	return list, nil
}

func commandLine(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
}

// programs are the names of a cluster's programs. Other programs with a path of
// the cluster may be a user's, such as a reader of its log or kubeconfig. The
// node program's name ends with its version.
var programs = []string{"containerd", "containerd-shim-runc-v2", "runc", "node"}

// isOurs reports whether a command line is of this cluster.
func isOurs(l layout, argv []string) bool {
	name := filepath.Base(argv[0])
	if strings.HasPrefix(name, "node-") {
		name = "node"
	}
	return slices.Contains(programs, name) &&
		slices.ContainsFunc(argv[1:], func(arg string) bool { return strings.Contains(arg, l.dir+"/") })
}

// matches reports whether a command line is of this part of the cluster.
func (p part) matches(l layout, argv []string) bool {
	if !isOurs(l, argv) {
		return false
	}
	first := argv[:min(2, len(argv))]
	return slices.ContainsFunc(first, func(arg string) bool { return filepath.Base(arg) == p.word })
}

// isRunning reports whether the part runs.
func (p part) isRunning(l layout) (bool, error) {
	list, err := processes()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list, func(q process) bool { return p.matches(l, q.argv) }), nil
}

// start starts the part, which outlives this program.
func (p part) start(ctx context.Context, l layout, t tools) error {
	argv := p.argv(l, t)
	path, err := lookPath(argv[0])
	if err != nil {
		return err
	}
	log, err := os.OpenFile(l.Log(p.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, argv[1:]...)
	cmd.Env = environment(l)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	// A new process has no command line at first, and would look like a zombie.
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := poll(ctx, 5*time.Millisecond, func(context.Context) error { return awaitVisible(cmd.Process.Pid) }); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return cmd.Process.Release()
}

// awaitVisible returns nil if a child has its command line, or has exited.
func awaitVisible(pid int) error {
	if len(commandLine(pid)) > 0 {
		return nil
	}
	if ended, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err != nil || ended == pid {
		return nil // the cause is in its log
	}
	return errors.New("it has no command line yet")
}

// environment returns our environment with all directories of programs in PATH,
// and without a proxy between the parts: containerd may need one to pull images.
func environment(l layout) []string {
	direct := strings.Join([]string{l.Loopback(), l.Pods(), l.Services()}, ",")
	if others := os.Getenv("NO_PROXY"); others != "" {
		direct += "," + others
	}
	path := strings.Join(append([]string{os.Getenv("PATH")}, sbin...), ":")
	return append(os.Environ(), "PATH="+path, "NO_PROXY="+direct, "no_proxy="+direct)
}

// killAll kills every process that match selects, and repeats that until there is
// none, because one of them may be starting another.
func killAll(ctx context.Context, match func(argv []string) bool) error {
	return poll(ctx, 20*time.Millisecond, func(context.Context) error {
		list, err := processes()
		if err != nil {
			return err
		}
		var left []string
		for _, q := range list {
			if !match(q.argv) {
				continue
			}
			left = append(left, fmt.Sprintf("%d (%s)", q.pid, filepath.Base(q.argv[0])))
			if err := kill(q.pid, match); err != nil {
				return err
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("still running: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

// kill kills a process if match still selects it. It opens the handle before the
// second check, so that a reused pid does no harm.
func kill(pid int, match func(argv []string) bool) error {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find process %d: %w", pid, err)
	}
	defer handle.Release() //nolint:errcheck // it only closes a descriptor
	argv := commandLine(pid)
	if len(argv) == 0 || !match(argv) {
		return nil
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// poll calls its function until it returns nil or ctx ends; then the error has the
// last one.
func poll(ctx context.Context, every time.Duration, ask func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		var final *permanentError
		if errors.As(err, &final) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// permanentError is an error that ends poll at once.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
