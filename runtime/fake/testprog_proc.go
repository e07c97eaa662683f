package fake

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func duration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return time.ParseDuration(s)
}

func idle(p *Proc, args []string) error {
	p.OnTerm(func() { p.Exit(0) })
	if err := echo(p, []string{"idle"}); err != nil {
		return err
	}
	return errPark
}

// environmentIdle writes the environment to a file, and is idle.
func environmentIdle(p *Proc, args []string) error {
	var text strings.Builder
	for name, value := range p.Env {
		fmt.Fprintf(&text, "%s=%s\n", name, value)
	}
	if err := write(p, []string{args[0], text.String()}); err != nil {
		return err
	}
	return idle(p, nil)
}

func hang(*Proc, []string) error { return errPark }

func ignoreTerm(p *Proc, _ []string) error {
	p.OnTerm(func() {})
	if err := echo(p, []string{"ignoring"}); err != nil {
		return err
	}
	return errPark
}

// recordSignals records the signals that may ask a main process to exit.
func recordSignals(p *Proc, args []string) error {
	for _, name := range []string{"TERM", "INT", "QUIT", "USR1", "USR2"} {
		p.OnSignal("SIG"+name, func() { _ = appendTo(p, []string{args[0], name}) }) // an exited one records nothing
	}
	if err := echo(p, []string{"noted"}); err != nil {
		return err
	}
	return errPark
}

func signalSelf(p *Proc, args []string) error {
	s, ok := signals[args[0]]
	if !ok || args[0] == "SEGV" || args[0] == "ABRT" {
		return fmt.Errorf("the Go runtime catches %s", args[0])
	}
	p.c.signal(p, s)
	return errPark
}

func kill(p *Proc, args []string) error {
	s, ok := signals[args[1]]
	if !ok {
		return fmt.Errorf("kill %s %s: no such process or signal", args[0], args[1])
	}
	main, _ := strconv.Atoi(p.Env[mainPIDEnv])
	names := map[string]int{"init": initPID, "shim": shimPID, "main": main}
	pid, named := names[args[0]]
	if !named {
		var err error
		if pid, err = strconv.Atoi(args[0]); err != nil || pid < 1 {
			return fmt.Errorf("kill %s %s: no such process or signal", args[0], args[1])
		}
	}
	if err := p.c.kill(p, pid, s); err != nil {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return nil
}

// startDaemon starts a child that hangs.
func startDaemon(p *Proc, args []string) error {
	p.Spawn(p.Args[0], "hang", args[0])
	return nil
}

func printOnTerm(p *Proc, args []string) error {
	child := p.Spawn(p.Args[0], "say-at-term", args[0])
	child.OnTerm(func() {
		_ = echo(child, args[:1]) // if it has exited by then, it prints nothing
		child.Exit(0)
	})
	return nil
}

// stormSize is how many children a fork storm has.
const stormSize = 8

func forkstorm(p *Proc, args []string) error {
	p.OnTerm(func() {})
	if err := echo(p, []string{"ignoring"}); err != nil {
		return err
	}
	for range stormSize {
		p.Spawn(p.Args[0], "forkstorm", args[0], "child").OnTerm(func() {})
	}
	return errPark
}

func ps(p *Proc, args []string) error {
	for _, other := range p.c.processes() {
		line := strings.Join(other.Args, " ")
		if other == p || !strings.Contains(line, args[0]) {
			continue
		}
		if _, err := fmt.Fprintln(p.Stdout, other.pid, line); err != nil {
			return err
		}
	}
	return nil
}

// zombies prints 0: a process that exits is removed from the table.
func zombies(p *Proc, _ []string) error { return echo(p, []string{"0"}) }

// kill sends a signal as a process does. The container's own two processes accept
// SIGTERM to the main process and SIGKILL from root: process 1 is out of reach,
// and without the other the outcome of the command is unknown.
func (c *container) kill(from *Proc, pid int, s Signal) error {
	c.mu.Lock()
	target, run := c.procs[pid], from.run
	if pid == initPID {
		target = c.main
	}
	isShim := pid == initPID || pid == shimPID
	uid := 0
	if target != nil && !isShim {
		uid = target.User.UID
	}
	switch {
	case target == nil && !isShim:
		c.mu.Unlock()
		return syscall.ESRCH
	case from.User.UID != uid:
		c.mu.Unlock()
		return syscall.EPERM
	case pid == shimPID && run != nil && s == sigKill:
		run.tainted = run.liveProcs > 0
		for _, p := range run.processes() {
			c.terminate(p, sigKill)
		}
	}
	c.mu.Unlock()
	if target != nil && (pid != initPID || s != sigKill) {
		c.signal(target, s)
	}
	return nil
}
